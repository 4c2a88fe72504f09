"""``symd view FILE``: the page of one module in a browser, as long as somebody looks, or with ``-o`` as one file. It
shows one module, the samples of a profile on it, and source files that may be read."""

from __future__ import annotations

import sys
import threading
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import click

from symd.api import Symbolizer
from symd.cli.call_files import FilesInAnyOrder, call_with
from symd.cli.listing_text import missing_source_option
from symd.cli.options import (
    complete_files,
    debug_option,
    demangle_option,
    example,
    file_argument,
    limit_option,
    rules_option,
    server_option,
    source_root_option,
)
from symd.cli.output import check_output_is_not_input, say_unused_rules, write_line
from symd.cli.process import AWAKE_SECONDS
from symd.cli.profile import samples_on, shown_profile_options
from symd.config import Limits
from symd.engine.files.listing_sources import allowed_folders, demangled, unused_rules, with_python_names
from symd.engine.files.module import kernel_names, open_module
from symd.errors import NoDebugData
from symd.model.names import Match, NameKind, NameQuery
from symd.model.sources import PathRule, SourceText
from symd.model.texts import counted, in_utf8, plural
from symd.query.source_files import Allowed, completed
from symd.server.http.colouring import ColouredApart, Rows
from symd.server.http.page import PROFILE, NamedProfile
from symd.server.http.report import answers_of, kernels_of, report
from symd.server.http.site import Site
from symd.server.http.viewing import viewed
from symd.system.atomic_output import write_file_or_stdout
from symd.system.messages import complain
from symd.system.symlinks import read_below

VARIABLES = 100
"""Instructions of each kernel whose variables are in a page that ``-o`` writes, unless something else is said: reading
them takes about 15 ms each."""


@dataclass(frozen=True, slots=True)
class ShownPage:
    """A module that is open, and all that a site of it is made of."""

    symbolizer: Symbolizer
    digest: str
    name: str
    sources: Callable[[str, Sequence[str], str | None], list[SourceText]]
    profile: NamedProfile | None
    limits: Limits
    colour: Callable[[str, str], Rows]

    def site(self, **facts: object) -> Site:
        """The site; ``facts`` besides the profile."""
        known = {PROFILE: self.profile} if self.profile is not None else {}
        return Site(self.symbolizer, self.sources, self.limits, (self.digest,), {**known, **facts}, colour=self.colour)


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
    *,
    demangle: bool = False,
) -> Iterator[ShownPage]:
    """FILE, opened as other verbs do, and the profile's samples on it. Raises NoDebugData where it holds no code."""
    allowed = allowed_folders(roots, rules)
    with open_module(file, server, limits, debug) as opened, closing(ColouredApart()) as colour:
        module = replace(opened, symbolizer=with_python_names(opened.symbolizer, allowed, limits))
        if not module.symbolizer.module(module.digest).objects:
            raise NoDebugData("there is no GPU code to show", where=file)
        found = None
        if profile is not None:
            found = NamedProfile(Path(profile).name, samples_on(module, profile, identity, limits))
        sources = partial(_sources, module.symbolizer, allowed, limits)
        if rules:
            say_unused_rules(file, unused_rules(rules, _source_files(module.symbolizer, module.digest)))
        symbolizer = demangled(module.symbolizer) if demangle else module.symbolizer
        yield ShownPage(symbolizer, module.digest, file, sources, found, limits, colour)


def _sources(
    symbolizer: Symbolizer, allowed: Allowed, limits: Limits, digest: str, files: Sequence[str], path: str | None
) -> list[SourceText]:
    read = partial(read_below, largest=limits.source_size)
    return [completed(each, allowed, read) for each in symbolizer.sources(digest, files, path)]


@click.command(
    "view",
    cls=FilesInAnyOrder,
    epilog=example(
        "symd view kernels.zebin\nsymd view kernels.zebin --profile stalls.csv --source-root ~/src\n"
        "symd view kernels.zebin --profile stalls.csv -o page.html\nsymd view --no-browser --keep kernels.zebin"
    ),
)
@file_argument
@click.option(
    "-o",
    "--output",
    "target",
    metavar="PAGE",
    shell_complete=complete_files,
    help='Write the page to this HTML file instead, to keep or to send; "-" is standard output.',
)
@click.option(
    "--kernel", "kernels", multiple=True, metavar="NAME", help="With -o: only this kernel. Can be given several times."
)
@click.option(
    "--variables",
    type=click.IntRange(0),
    default=VARIABLES,
    show_default=True,
    metavar="N",
    help="With -o: include the variables at this many instructions of each kernel, the hottest ones if there is a profile.",
)
@server_option
@debug_option
@shown_profile_options
@source_root_option
@rules_option
@demangle_option
@click.option(
    "--browser/--no-browser", "opens", default=True, help="Open the page in the browser, or only print its address."
)
@click.option("--keep", is_flag=True, help="Keep serving after the page is closed, until Ctrl-C.")
@click.option(
    "--address",
    default="127.0.0.1:0",
    show_default=True,
    metavar="HOST:PORT",
    help="Serve at this address on loopback; port 0 picks a free one.",
)
@limit_option
def command(
    file: str,
    target: str | None,
    kernels: tuple[str, ...],
    variables: int,
    server: str | None,
    debug: str | None,
    profile: str | None,
    identity: str | None,
    roots: tuple[Path, ...],
    rules: tuple[PathRule, ...],
    demangle: bool,
    opens: bool,
    keep: bool,
    address: str,
    limits: Limits,
) -> None:
    """Show FILE in the browser: source beside instructions, inlined calls, variables, and the samples of a profile.

    The page is served on loopback, to anyone who has the printed address. The command ends when you close the
    page or press Ctrl-C. With -o, it writes a single, self-contained HTML file instead. If the module has many kernels,
    the file has those with the most samples, or the first ones. Showing instructions needs the vendor's disassembler
    (see symd doctor).
    """
    if target is not None:
        check_output_is_not_input((target,), (file, debug, profile))
    elif kernels:
        raise click.UsageError("--kernel needs -o; in the browser, choose a kernel on the page")
    with shown_module(file, server, limits, debug, profile, identity, roots, rules, demangle=demangle) as shown:
        if target is not None:
            write_page(shown, file, target, kernels, variables)
            return
        with viewed(lambda presence: shown.site(presence=presence), address) as view:
            write_line(f"symd shows {file} at {view.url}")
            sys.stdout.flush()
            if opens and not webbrowser.open(view.invitation):
                complain("could not start a browser: open that address; Ctrl-C ends symd view")
            try:
                end = threading.Event() if keep else view.presence.gone
                while not end.wait(AWAKE_SECONDS):
                    pass
            except KeyboardInterrupt:
                return


def write_page(shown: ShownPage, file: str, target: str, kernels: Sequence[str], variables: int) -> None:
    """Write the page of FILE to ``target``, with the variables at so many instructions of each kernel. Of a module of
    many kernels those with the most samples are in it, or the first, unless ``kernels`` names others. Raises
    KernelNotFound for a name that nothing has."""
    site = shown.site()
    names = [name for each in kernels for name in _kernels_called(shown, each)]
    chosen, left_out = kernels_of(site, shown.digest, names)
    answers, problems = answers_of(site, shown.digest, chosen, variables)
    page = report(answers, in_utf8(Path(file).name))
    write_file_or_stdout(target, page, hint="choose another PAGE")
    if target != "-":
        complain(f"written to {target}, {len(page):,} bytes")
    _say_missing_sources(shown)
    for problem, count in problems.items():
        complain(
            f"{count} of {counted(len(chosen), 'kernel')} {plural(count, 'has', 'have')} no instructions in the page: {problem}"
        )
    if left_out:
        further = plural(left_out, "further kernel is", "further kernels are")
        complain(f"{left_out} {further} not in the page (--kernel NAME adds one)")


def _source_files(symbolizer: Symbolizer, digest: str) -> list[str]:
    wanted = NameQuery("*", Match.GLOB, frozenset({NameKind.FILE}))
    return list(dict.fromkeys(each.name for each in symbolizer.names(digest, wanted)))


def _say_missing_sources(shown: ShownPage) -> None:
    """Say of how many source files the page has no text, and why of the first."""
    files = _source_files(shown.symbolizer, shown.digest)
    missing = [each for each in shown.sources(shown.digest, files, None) if each.text is None] if files else []
    if missing:
        option = missing_source_option(missing[0])
        called = f"; write {call_with(option)}" if option else ""
        count = f"{len(missing)} of {counted(len(files), 'source file')}"
        complain(
            f"{count} {plural(len(missing), 'is', 'are')} not in the page: {missing[0].file}: {missing[0].problem}{called}"
        )


def _kernels_called(shown: ShownPage, name: str) -> list[str]:
    """The symbols of the kernels that a name means; the name itself where its code is in no kernel."""
    return sorted(kernel_names(shown.symbolizer, shown.digest, name)) or [name]
