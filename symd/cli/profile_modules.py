"""Modules that a profile speaks of, as the user names them, and errors of the profile under the name that the user gave it: readers know bytes alone, and say "the profile"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

import click

from symd import profiles
from symd.cli.options import Verb, complete_files, limit_option, module_server_option, rules_option, source_root_option
from symd.config import Limits
from symd.engine.files.input import read_input
from symd.engine.files.listing_sources import allowed_folders, with_python_names
from symd.engine.files.module import open_symbolizer
from symd.errors import BadQuery, InvalidInput, SymdError
from symd.formats.containers import compressed_file, identify
from symd.formats.containers import uri as uris
from symd.model.sources import PathRule
from symd.profiles.sample_tables.named_module import named_module

_THE_PROFILE = re.compile(r"^the( [\w-]+)? profile\b")


@contextmanager
def naming_profile(source: str) -> Iterator[None]:
    """Raise errors about the profile with its file's name; ``source`` "-" is standard input."""
    try:
        yield
    except SymdError as error:
        name = "standard input" if source == "-" else source
        error.where = _THE_PROFILE.sub(lambda _: name, error.where)
        raise


def profile_module_options(verb: Verb) -> Verb:
    """The options that say which modules a profile is about, and where they, its format, and texts of sources are: ``modules``, ``name``, ``folders``, ``roots``,
    ``rules``, ``server`` and ``limits``."""
    options = (
        click.option(
            "-m",
            "--module",
            "modules",
            multiple=True,
            metavar="[ID=]FILE",
            shell_complete=complete_files,
            help="A module that the profile speaks of; ID is what the profile calls it (build id, code object id, CRC, file name).",
        ),
        click.option("--format", "name", metavar="NAME", help="The profile's format, when its bytes do not tell."),
        click.option(
            "--allow",
            "folders",
            multiple=True,
            metavar="DIR",
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            help="Read the code object files that the profile names, when they lie below DIR.",
        ),
        source_root_option,
        rules_option,
        module_server_option,
        limit_option,
    )
    for option in reversed(options):
        verb = option(verb)
    return verb


@contextmanager
def profile_resolver(
    server: str | None,
    limits: Limits,
    modules: Sequence[str],
    files: ProfileFiles,
    roots: Sequence[Path],
    rules: Sequence[PathRule],
) -> Iterator[profiles.Resolver]:
    """What looks a profile's addresses up in the ``modules`` that the user names, in those of a daemon, and in ``files`` that the profile names."""
    with open_symbolizer(server, limits) as symbolizer:
        named = [named_module(text, symbolizer, server, limits) for text in modules]
        sources = with_python_names(symbolizer, allowed_folders(roots, rules), limits)
        yield profiles.Resolver(sources, named, read_uri=files.read)


def check_no_module(data: bytes, source: str) -> None:
    """Raises InvalidInput where what should be a profile is a module."""
    if compressed_file.claims(data):  # whoever expands it says what is inside
        return
    if profiles.identify(data) is None and (found := identify(data)) is not None:
        hint = f"symd profile -m {quote(source)} IN OUT, or symd hot -m {quote(source)} IN; IN is what a profiler wrote"
        raise InvalidInput(
            f"no reader knows this profile format: it is {found.NAME}, a module", where=source, hint=hint
        )


class ProfileFiles:
    """Code objects that a profile names by URI; read only below the folders that the user allowed."""

    def __init__(self, folders: Sequence[Path], limits: Limits) -> None:
        self._folders = [folder.resolve() for folder in folders]
        self._limits = limits
        self.paths: list[str] = []
        """Those that were read."""

    def read(self, uri: str) -> bytes:
        """The bytes of a code object. Raises BadQuery, Unsupported (memory://) and InvalidInput."""
        named = uris.parse(uri)
        try:
            path = Path(named.path).resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise BadQuery("the path cannot be followed", where=uri) from error
        if not any(path.is_relative_to(folder) for folder in self._folders):
            raise InvalidInput(
                "the profile names this file",
                where=uri,
                hint=f"--allow {path.parent} reads it, or give --module ID={path}",
            )
        if not path.is_file():
            raise InvalidInput("there is no such file, or it is none of data", where=uri)
        self.paths.append(str(path))
        return named.cut(read_input(str(path), self._limits))
