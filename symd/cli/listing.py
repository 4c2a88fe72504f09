"""``symd listing FILE``: source beside instructions, function by function."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click

from symd.cli.listing_text import Lines, Printer, text_lines
from symd.cli.options import (
    debug_option,
    demangle_option,
    example,
    file_verb,
    object_option,
    rules_option,
    source_root_option,
)
from symd.cli.output import NO, printable, write_line
from symd.config import Limits
from symd.engine.files.listing_sources import allowed_folders, source_texts, with_python_names
from symd.engine.files.module import OpenModule, open_module
from symd.errors import NoDebugData, SymdError
from symd.model.identities import ObjectPath
from symd.model.json.listings import instruction_lines
from symd.model.listings import Listing, ListingPart
from symd.model.plurals import counted, plural
from symd.model.sources import PathRule, SourceText
from symd.query.demangler import Demangler

_JSON_HELP = """\b
With --json one instruction a line, in the order of the code:
  {"object": "", "kernel": "vadd", "function": "vadd",
   "section": ".text.vadd", "section_index": 1, "section_offset": 432,
   "address": 432, "size": 16, "text": "add (16|M0) ...", "reason": "EXACT",
   "frames": [...], "source": "    return x + y;"}

function is the one whose code it is; reason and frames (innermost first) are those of symd symbolize;
source is the innermost frame's line, null where it is not found. A code object that cannot be
disassembled is one line {"object": "", "target": "dg2", "problem": "..."}.
"""


@click.command(
    "listing",
    epilog=f"{_JSON_HELP}\n"
    + example(
        "symd listing program.bin\n"
        "symd listing --kernel vadd --source-root ~/src program.bin\n"
        "symd listing --map /build/src=src --json program.bin | jq 'select(.frames[0].line == 8).text'"
    ),
)
@file_verb
@object_option
@debug_option
@click.option("--kernel", metavar="NAME", help="Only this kernel; NAME as symd symbolize takes it.")
@click.option("--target", metavar="DEVICE", help="The device, for code that does not say: dg2, gfx90a, sm_90 ...")
@source_root_option
@rules_option
@demangle_option
def command(
    file: str,
    server: str | None,
    limits: Limits,
    as_json: bool,
    path: str | None,
    debug: str | None,
    kernel: str | None,
    target: str | None,
    roots: tuple[Path, ...],
    rules: tuple[PathRule, ...],
    demangle: bool,
) -> int:
    """Show each function of FILE: its source lines with their instructions, then the instructions without a line.

    Each instruction is shown once, below the line that it comes from; where that was inlined, a mark says into what.
    Needs the disassembler of the code's vendor, here or where the daemon is: symd doctor says what to install. Exit code 1: of
    some code objects there are no instructions, in too little time for instance; the last line on standard error says of how many.
    """
    allowed = allowed_folders(roots, rules)
    part = ListingPart(None if path is None else ObjectPath(path), kernel, target)
    with open_module(file, server, limits, debug, path) as opened:
        module = replace(opened, symbolizer=with_python_names(opened.symbolizer, allowed, limits))
        found = -1
        problems: list[str] = []
        for found, listing in enumerate(_listings(module, part)):
            problems += [listing.problem] if listing.problem else []
            sources = source_texts(
                module.symbolizer, module.digest, list(dict.fromkeys(_files(listing))), allowed, limits
            )
            if as_json:
                sys.stdout.writelines(instruction_lines(listing, sources))
            else:
                _print(listing, sources, Demangler(limits) if demangle else None, first=found == 0)
        if found < 0:
            raise NoDebugData("there is nothing to list", where=module.name)
    return _completeness(file, found + 1, problems)


def _listings(module: OpenModule, part: ListingPart) -> Iterator[Listing]:
    """The module's listings; what its code did to a disassembler is told with the name that the user gave it."""
    try:
        yield from module.symbolizer.listing(module.digest, part)
    except SymdError as error:
        error.where = error.where.replace(f"modules/{module.digest}", module.name)
        raise


def _completeness(file: str, count: int, problems: list[str]) -> int:
    """Say of how many of ``count`` code objects there are no instructions; the exit code."""
    if not problems:
        return 0
    left_out = f"{len(problems)} of {counted(count, 'code object')} {plural(len(problems), 'is', 'are')} not listed"
    click.echo(f"symd: {printable(f'{file}: {left_out}: {problems[0]}')}", err=True)
    return NO


def _files(listing: Listing) -> Iterator[str]:
    locations = listing.answers.locations
    for number in dict.fromkeys(listing.answers.location.tolist()):
        file = locations.strings[locations.file[number]]
        if file:
            yield file


def _print(listing: Listing, sources: dict[str, SourceText], demangler: Demangler | None, *, first: bool) -> None:
    if not first:
        write_line()
    printer = Printer(sys.stdout)
    names = demangler.names(_functions(listing)) if demangler else {}
    lines: Lines = text_lines(listing, sources, names)
    for style, line in lines:
        printer.write(style, line)
    printer.flush()


def _functions(listing: Listing) -> list[str]:
    locations = listing.answers.locations
    numbers = {*locations.function.tolist(), *locations.kernel.tolist()}
    return sorted({locations.strings[number] for number in numbers} - {""})
