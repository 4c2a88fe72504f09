"""What ``symd view`` and ``symd report`` show: one module, the samples of a profile on it, and source files that may be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from symd.api import Symbolizer
from symd.cli.input import read_input
from symd.cli.module import open_module
from symd.cli.options import complete_files
from symd.config import Limits
from symd.model.sources import PathRule, SourceText
from symd.profiles import NamedModule, Options, Resolver, samples
from symd.profiles.placed import placed
from symd.query.source_text import Allowed, completed
from symd.store.source_files import read_below
from symd.web.routes.samples import PROFILE, NamedProfile
from symd.web.site import Site

Verb = TypeVar("Verb", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Shown:
    """A module that is open, and all that a site of it is made of."""

    symbolizer: Symbolizer
    digest: str
    name: str
    sources: Callable[[str, Sequence[str], str | None], list[SourceText]]
    profile: NamedProfile | None
    limits: Limits

    def site(self, **facts: object) -> Site:
        """The site; ``facts`` besides the profile."""
        known = {PROFILE: self.profile} if self.profile is not None else {}
        return Site(self.symbolizer, self.sources, self.limits, (self.digest,), {**known, **facts})


def page_options(verb: Verb) -> Verb:
    """The options that say what a page shows."""
    options = (
        click.option(
            "--profile",
            metavar="PROFILE",
            shell_complete=complete_files,
            help="A profile whose samples are shown on lines and instructions, of any format that symd profile reads.",
        ),
        click.option(
            "--id", "identity", metavar="ID", help="What the profile calls FILE (build id, code object id, CRC)."
        ),
        click.option(
            "--source-root",
            "roots",
            multiple=True,
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            default=(Path(),),
            show_default="the working directory",
            help="Source is read below this folder only, and below each TO of --map.",
        ),
    )
    for option in reversed(options):
        verb = option(verb)
    return verb


@contextmanager
def shown_module(
    file: str,
    server: str | None,
    limits: Limits,
    debug: str | None,
    profile: str | None,
    identity: str | None,
    roots: Sequence[Path],
    rules: Sequence[PathRule],
) -> Iterator[Shown]:
    """FILE, opened as other verbs do, and the profile's samples on it."""
    folders = [*roots, *(Path(rule.replacement) for rule in rules if rule.replacement)]
    allowed = Allowed(tuple(dict.fromkeys(str(folder.expanduser().absolute()) for folder in folders)), tuple(rules))
    with open_module(file, server, limits, debug) as module:
        found = None
        if profile is not None:
            named = [NamedModule(module.digest, file, name) for name in ((identity, None) if identity else (None,))]
            resolver = Resolver(module.symbolizer, named)
            options = Options(limits)
            found = NamedProfile(
                Path(profile).name, placed(samples(read_input(profile, limits), options), resolver, options)
            )
        sources = partial(_sources, module.symbolizer, allowed, limits)
        yield Shown(module.symbolizer, module.digest, file, sources, found, limits)


def _sources(
    symbolizer: Symbolizer, allowed: Allowed, limits: Limits, digest: str, files: Sequence[str], path: str | None
) -> list[SourceText]:
    read = partial(read_below, largest=limits.source_size)
    return [completed(each, allowed, read) for each in symbolizer.sources(digest, files, path)]
