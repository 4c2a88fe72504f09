"""``symd listing FILE``: source lines beside their instructions, by function and file, plain or in color on a
terminal.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from operator import attrgetter
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import NamedTuple, TextIO

import click

from symd.cli.address_range import code_before, range_options, range_part
from symd.cli.any_order import ModuleAndProfile
from symd.cli.options import (
    debug_option,
    demangle_option,
    example,
    file_verb,
    object_option,
    rules_option,
    shown_anyway,
    source_root_option,
)
from symd.cli.output import NO, is_coloured, printable, say_unused_rules, styled, write_line
from symd.cli.profile import samples_on, shown_profile_options
from symd.config import Limits
from symd.engine.files.added_module import OpenModule
from symd.engine.files.listing_sources import allowed_folders, source_texts, unused_rules, with_python_names
from symd.engine.files.module import open_module
from symd.errors import KernelNotFound, NoDebugData, SymdError
from symd.model.addresses import is_place, parse_query
from symd.model.answers import Answers, Frame
from symd.model.identities import ObjectPath
from symd.model.json.answers import instruction_lines
from symd.model.line_tables import MOST_AROUND, Around, CodePart, Listing, ListingPart
from symd.model.sources import PathRule, SourceText, TextOrigin
from symd.model.texts import counted, plural
from symd.profiles.placed import PlacedSamples
from symd.profiles.samples import Value
from symd.query.demangler import Demangler
from symd.query.source_files import NOWHERE_ALLOWED, base_name
from symd.system.messages import complain

Lines = Iterator[tuple[str, str]]
"""(style, line) in order; styles are keys of STYLES."""
CountedLines = Iterator[tuple[str, str, Iterable[int]]]
"""(style, line, the numbers of the instructions that it is about)."""
STYLES = {
    "title": "bold green",
    "file": "bold",
    "note": "dim",
    "source": "bold cyan",
    "context": "cyan",
    "inlined": "magenta",
    "instruction": "",
    "": "",
}
CONTEXT_LINES = 8
"""Source lines without instructions between two that have some are shown when they are no more than this."""
_INDENT = " " * 8
_MARKED = f"{'=>':>7} "
SectionPlace = tuple[int, int]
"""The number of a section, and an offset in it."""
_NO_SHARE = " " * 8
_LONGEST_NAME = 40
"""Characters of a kernel's name that stand in front of each of its instructions."""
_LONGEST_SECTION = 16
"""Characters of a section's name that stand there."""
_AROUND = 5
_NO_PLACE: SectionPlace = (-1, -1)
"""Stands for no place: the code is shown in its order, and no instruction is marked."""


@dataclass(slots=True)
class Block:
    """The instructions of one function in one section: numbers of instructions by file and line, and those without."""

    kernel: str | None
    function: str | None
    section: str
    files: dict[str, dict[int, list[int]]] = field(default_factory=dict)
    without: list[int] = field(default_factory=list)

    def numbers(self) -> Iterator[int]:
        """The numbers of all its instructions."""
        for lines in self.files.values():
            yield from chain.from_iterable(lines.values())
        yield from self.without


def blocks(answers: Answers) -> list[Block]:
    """Kernel by kernel and in them by function, in the order of the code. An instruction whose answer is APPROXIMATE
    stands below that line, as it counts for it in every sum of samples."""
    found: dict[tuple[int, str | None], dict[str | None, Block]] = {}
    frames_of = _Frames(answers)
    places = answers.text_section.tolist()
    for number, (location, place) in enumerate(zip(answers.location.tolist(), places, strict=True)):
        frames = frames_of[location]
        kernel = answers.locations.strings[answers.locations.kernel[location]] or None
        function = frames[-1].function if frames else None
        functions = found.setdefault((place, kernel), {})
        block = functions.get(function)
        if block is None:
            section = answers.text_sections[place - 1].section or ""
            block = functions[function] = Block(kernel, function, section)
        innermost = frames[0] if frames else None
        if innermost and innermost.file and innermost.line:
            block.files.setdefault(innermost.file, {}).setdefault(innermost.line, []).append(number)
        else:
            block.without.append(number)
    return [block for functions in found.values() for block in functions.values()]


class _Frames(dict[int, tuple[Frame, ...]]):
    """Frames by location, each made once."""

    def __init__(self, answers: Answers) -> None:
        super().__init__()
        self._locations = answers.locations

    def __missing__(self, location: int) -> tuple[Frame, ...]:
        known = self._locations.function[location] or self._locations.file[location]
        frames = self[location] = self._locations.frames(location) if known else ()
        return frames


class Shares(NamedTuple):
    """What each instruction of a listing weighs in a profile whose samples weigh ``total``."""

    weights: Sequence[Value]
    total: Value

    def of(self, number: int) -> float:
        """The share of an instruction, from 0 to 1."""
        return self.weights[number] / self.total if self.total else 0.0

    def text(self, numbers: Iterable[int]) -> str:
        """The share of instructions as it stands in front of a line; blank for none."""
        share = 100 * sum(map(self.of, numbers))
        return f"{share:>6.2f}% " if share else _NO_SHARE


def text_lines(
    listing: Listing,
    sources: Mapping[str, SourceText],
    names: Mapping[str, str],
    shares: Shares | None = None,
    around: SectionPlace | None = None,
) -> Lines:
    """All lines of one code object's listing; ``names`` are readable ones for functions that have others. With
    ``shares`` each line begins with its share of a profile; ``around`` is the place that is marked, in the order of the
    code."""
    if shares is None:
        for style, line, _ in _lines(listing, sources, names, around):
            yield style, line
        return
    for style, line, numbers in _lines(listing, sources, names, around):
        yield style, f"{shares.text(numbers)}{line}".rstrip()


def _lines(
    listing: Listing, sources: Mapping[str, SourceText], names: Mapping[str, str], around: SectionPlace | None
) -> CountedLines:
    yield "title", _title(listing), range(len(listing.text))
    if listing.problem:
        yield "note", f"no instructions: {listing.problem}", ()
        return
    frames_of = _Frames(listing.answers)
    if around is not None:
        yield from _lines_around(listing, sources, names, frames_of, around)
        return
    for _, group in groupby(blocks(listing.answers), key=attrgetter("kernel", "section")):
        of_kernel = list(group)
        yield "", "", ()
        yield "title", _heading(of_kernel[0], names), chain.from_iterable(each.numbers() for each in of_kernel)
        for block in of_kernel:
            if block.function != block.kernel:
                title = f"function {_named(block.function, names)}" if block.function else "no function"
                yield "", "", ()
                yield "title", title, block.numbers()
            for file, lines in block.files.items():
                yield from _file_lines(listing, file, lines, sources.get(file, SourceText(file)), frames_of, names)
            if block.without:
                yield "file", "  without a line", block.without
                yield from _instructions(listing, block.without, frames_of, names)


def _lines_around(
    listing: Listing,
    sources: Mapping[str, SourceText],
    names: Mapping[str, str],
    frames_of: _Frames,
    around: SectionPlace,
) -> CountedLines:
    """Instructions in the order of the code, below each the line that it comes from, with a mark at ``around``."""
    answers = listing.answers
    sections = [answers.text_sections[place - 1] for place in answers.text_section.tolist()]
    places = zip(sections, answers.offset.tolist(), range(len(sections)), strict=True)
    before = [each[1:] for each in places if each[0].section_index == around[0] and each[1] <= around[1]]
    marked = max(before)[1] if before else None

    def line_of(number: int) -> tuple[str, str, int]:
        location = answers.location.item(number)
        kernel = answers.locations.strings[answers.locations.kernel[location]] or None
        heading = _heading(Block(kernel, None, sections[number].section or ""), names)
        frame = frames_of[location][0] if frames_of[location] else None
        return (heading, frame.file, frame.line) if frame and frame.file and frame.line else (heading, "", 0)

    shown = ("", "")
    for (heading, file, line), group in groupby(range(len(sections)), key=line_of):
        numbers = list(group)
        if heading != shown[0]:
            yield "", "", ()
            yield "title", heading, ()
        source = sources.get(file, SourceText(file))
        if (heading, file) != shown:
            yield "file", f"  {file}{_whence(source)}" if file else "  without a line", ()
        shown = heading, file
        if file:
            yield "source", _source_line(line, (source.text or "").splitlines()), numbers
        yield from _instructions(listing, numbers, frames_of, names, marked)


def _title(listing: Listing) -> str:
    return "  ".join(part for part in (listing.path, listing.target or "", listing.disassembler) if part) or "module"


def _heading(block: Block, names: Mapping[str, str]) -> str:
    owner = f"kernel {_named(block.kernel, names)}" if block.kernel else "functions outside kernels"
    return f"{owner}  {block.section}".rstrip()


def _named(name: str | None, names: Mapping[str, str]) -> str:
    return names.get(name, name) if name else "(unnamed)"


def _file_lines(
    listing: Listing,
    file: str,
    lines: Mapping[int, Sequence[int]],
    source: SourceText,
    frames_of: _Frames,
    names: Mapping[str, str],
) -> CountedLines:
    """The lines of one file in their order, with those between that own nothing as long as these are few."""
    yield "file", f"  {file}{_whence(source)}", chain.from_iterable(lines.values())
    text = source.text.splitlines() if source.text is not None else []
    before = 0
    for line in sorted(lines):
        between = range(before + 1, line) if before else range(0)
        if len(between) <= CONTEXT_LINES:
            yield from (("context", _source_line(number, text), ()) for number in between if number <= len(text))
        elif text:
            yield "note", f"{'...':>6}", ()
        yield "source", _source_line(line, text), lines[line]
        yield from _instructions(listing, lines[line], frames_of, names)
        before = line


def _whence(source: SourceText) -> str:
    if source.origin is TextOrigin.DISK:
        return f"  (read from {source.path}{'' if source.verified else '; source not verified: no MD5'})"
    if source.origin is TextOrigin.MODULE:
        return "  (text in the module)"
    return f"  ({missing_text(source)})" if source.problem else ""


def missing_text(source: SourceText) -> str:
    """Why there is no text of a source file, and what to add where the file is here."""
    if source.problem.endswith(NOWHERE_ALLOWED) and Path(source.file).is_absolute() and Path(source.file).is_file():
        return f"it exists, and no allowed folder holds it: add --source-root {quote(str(Path(source.file).parent))}"
    if rule := _rule_for_a_file_here(source.file):
        return f"{source.problem}; a file of that name is here: add --map {quote(rule)}"
    return f"{source.problem}; --source-root and --map name folders"


def _rule_for_a_file_here(file: str) -> str:
    """The value of --map by which the working directory has a source file; "" where it has none of that name."""
    *folders, _ = parts = PurePosixPath(file).parts or ("",)
    for number in range(1, len(parts)):
        if Path(*parts[number:]).is_file():
            return f"{PurePosixPath(*folders[:number])}=."
    return ""


def _source_line(number: int, text: Sequence[str]) -> str:
    shown = text[number - 1].expandtabs(4) if number <= len(text) else ""
    return f"{number:>6}  {shown}".rstrip()


def _instructions(
    listing: Listing,
    numbers: Sequence[int],
    frames_of: _Frames,
    names: Mapping[str, str],
    marked: int | None = None,
) -> CountedLines:
    """Instructions with a note wherever they begin to come from another inlined call, and a mark at ``marked``."""
    into: tuple[Frame, ...] = ()
    answers = listing.answers
    for number in numbers:
        callers = frames_of[int(answers.location[number])][1:]
        if callers != into:
            into = callers
            yield "inlined", f"{_INDENT}  {_mark(callers, names)}", ()
        indent = _MARKED if number == marked else _INDENT
        yield "instruction", f"{indent}{_place(answers, number)}  {listing.text[number]}", (number,)


def _place(answers: Answers, number: int) -> str:
    """The instruction's place as ``symd symbolize`` takes it: its object address where code is linked, else an offset
    in its kernel, which has a section of its own, or in its section."""
    offset, section = int(answers.offset[number]), answers.text_sections[int(answers.text_section[number]) - 1]
    if section.address:
        return f"{section.address + offset:#08x}"
    name = answers.locations.strings[answers.locations.kernel[answers.location[number]]]
    if name and len(name) <= _LONGEST_NAME and section.section and section.section.endswith(f".{name}"):
        return f"{name}+{offset:#06x}"
    named = section.section and len(section.section) <= _LONGEST_SECTION
    return f"({section.section if named else f'#{section.section_index}'})+{offset:#06x}"


def _mark(callers: Sequence[Frame], names: Mapping[str, str]) -> str:
    if not callers:
        return "not inlined"
    calls = (f"{_named(each.function, names)} at {base_name(each.file or '?')}:{each.line}" for each in callers)
    return "inlined into " + ", into ".join(calls)


class Printer:
    """Writes styled lines: in colour on a terminal, else plain."""

    def __init__(self, out: TextIO) -> None:
        self._out, self._is_coloured = out, is_coloured(out)
        self._lines: list[str] = []

    def write(self, style: str, line: str) -> None:
        text = printable(line)
        self._lines.append(f"{styled(text, STYLES[style]) if self._is_coloured else text}\n")
        if len(self._lines) >= 1000:
            self.flush()

    def flush(self) -> None:
        self._out.writelines(self._lines)
        self._lines.clear()


_JSON_HELP = """\b
With --json, one instruction per line, in code order:
  {"object": "", "kernel": "vadd", "function": "vadd",
   "section": ".text.vadd", "section_index": 1, "section_offset": 432,
   "address": 432, "size": 16, "text": "add (16|M0) ...",
   "bytes": "4000...", "flow": [], "targets": [], "reason": "EXACT",
   "frames": [...], "source": "    return x + y;"}

flow is branch, call or end; targets are offsets from the start of the section;
function is the one that the code belongs to; reason and frames (innermost first) are those of symd symbolize;
source is the line of the innermost frame, or null if it is not found. --profile adds value and
share (from 0 to 1, of the whole profile). A code object that cannot be disassembled is a single line {"object": "", "target": "dg2", "problem": "..."}.
"""


class _PlacedListing(ModuleAndProfile):
    """A listing whose PLACE is refused where it can be no place of the module."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Called by click with the words behind the verb."""
        rest = super().parse_args(ctx, args)
        place, other = ctx.params.get("place"), ctx.params.get("function") or ctx.params.get("around")
        if place and (other or Path(place).exists() or re.search(r"\.\w+:[0-9]|\.html?$", place)):
            raise click.UsageError(f"Got unexpected extra argument ({place})", ctx)
        return rest


@click.command(
    "listing",
    cls=_PlacedListing,
    epilog=f"{_JSON_HELP}\n"
    + example(
        "symd listing program.bin\n"
        "symd listing program.bin vadd\n"
        "symd listing --function vadd --source-root ~/src program.bin\n"
        "symd listing --around vadd+0x1b0 --before 2 --after 2 program.bin\n"
        "symd listing --profile stalls.csv program.bin\n"
        "symd listing --map /build/src=src --json program.bin | jq 'select(.frames[0].line == 8).text'"
    ),
)
@file_verb
@click.argument("place", required=False)
@object_option
@debug_option
@click.option(
    "--function",
    "--kernel",
    "function",
    metavar="NAME",
    help="Show only this kernel or other function, named as in symd symbolize.",
)
@click.option("--around", metavar="QUERY", help="Show only the code around this QUERY (see symd symbolize).")
@click.option(
    "--before", type=click.IntRange(0, MOST_AROUND), help="How many instructions to show before it.  [default: 5]"
)
@click.option(
    "--after", type=click.IntRange(0, MOST_AROUND), help="How many instructions to show after it.  [default: 5]"
)
@range_options
@click.option("--target", metavar="DEVICE", help="The device, if the code does not name one: dg2, gfx90a, sm_90, ...")
@shown_profile_options
@source_root_option
@rules_option
@demangle_option
@shown_anyway(
    "-c", "-d", "-S", "-l", "-g", "-i", "--disassemble", "--source", "--line-numbers", "--inlines", "--print-line-info"
)
def command(
    file: str,
    server: str | None,
    limits: Limits,
    as_json: bool,
    path: str | None,
    debug: str | None,
    place: str | None,
    function: str | None,
    around: str | None,
    before: int | None,
    after: int | None,
    start: int | None,
    stop: int | None,
    target: str | None,
    profile: str | None,
    identity: str | None,
    roots: tuple[Path, ...],
    rules: tuple[PathRule, ...],
    demangle: bool,
) -> int:
    """Show each function of FILE: its source lines with their instructions, then the instructions without a line.
    PLACE is a function or kernel to show alone (as with --function NAME), or a place in the code to show with its
    surroundings (as with --around QUERY).

    Each instruction is shown once, below the line it comes from; if that line was inlined, a note names the function
    it was inlined into. With --around, instructions are in address order, and => marks the place. Disassembly needs
    the vendor's tool, on this machine or the daemon's; symd doctor says what to install. With --profile, each line
    begins with its share of the profile; symd hot lists the hottest lines. Exit code 1: some code objects could not be
    disassembled, for example because time ran out; the last line on standard error says how many.
    """
    allowed = allowed_folders(roots, rules)
    if place is not None:
        function, around = (None, place) if is_place(place) else (place, None)
    within = _within(function, around, before, after)
    is_range = start is not None or stop is not None
    if is_range and within is not None:
        raise click.UsageError("--start-address and --stop-address cannot be used with --function or --around")
    part = ListingPart(None if path is None else ObjectPath(path), within, target)
    with open_module(file, server, limits, debug, path) as opened:
        module = replace(opened, symbolizer=with_python_names(opened.symbolizer, allowed, limits))
        samples = None if profile is None else samples_on(module, profile, identity, limits)
        total = 0 if samples is None else samples.weight(samples.totals())
        at = None if around is None or as_json else _section_place(module, around, path)
        if is_range:
            at = _NO_PLACE
        found = -1
        problems: list[str] = []
        unused = list(rules)
        for found, whole in enumerate(_listings(module, range_part(module, part, start, stop))):
            listing = whole if stop is None else code_before(whole, stop)
            problems += [listing.problem] if listing.problem else []
            sources = source_texts(
                module.symbolizer, module.digest, list(dict.fromkeys(_files(listing))), allowed, limits
            )
            unused = unused_rules(unused, sources)
            shares = None if samples is None else _shares(samples, total, module.digest, listing)
            if as_json:
                weights = None if shares is None else [(each, shares.of(at)) for at, each in enumerate(shares.weights)]
                sys.stdout.writelines(instruction_lines(listing, sources, weights))
            else:
                _print(listing, sources, shares, at, Demangler() if demangle else None, first=found == 0)
        if found < 0:
            raise NoDebugData("there is nothing to list", where=module.name)
    say_unused_rules(file, unused)
    return _completeness(file, found + 1, problems)


def _within(function: str | None, around: str | None, before: int | None, after: int | None) -> CodePart | None:
    if around is None:
        if before is not None or after is not None:
            raise click.UsageError("--before and --after are for --around QUERY")
        return function
    if function is not None:
        raise click.UsageError("--function and --around cannot be used together")
    return Around(parse_query(around), _AROUND if before is None else before, _AROUND if after is None else after)


def _section_place(module: OpenModule, around: str, path: str | None) -> SectionPlace | None:
    """Where the place is that code is listed around; None where several sections may be meant."""
    (answer,) = module.symbolizer.symbolize(module.digest, [parse_query(around)], path)
    if answer.section_index is None or answer.section_offset is None:
        return None
    return answer.section_index, answer.section_offset


def _listings(module: OpenModule, part: ListingPart) -> Iterator[Listing]:
    """The module's listings; what its code did to a disassembler is told with the name that the user gave it."""
    try:
        yield from module.symbolizer.listing(module.digest, part)
    except SymdError as error:
        error.where = error.where.replace(f"modules/{module.digest}", module.name)
        if isinstance(error, KernelNotFound) and not error.hint.startswith("did you mean"):
            file, name = quote(module.name), part.within if isinstance(part.within, str) else "NAME"
            error.hint = (
                f"symd names {file} '*' lists them; symd locate {file} {quote(name)} finds one that is only inlined"
            )
        raise


def _completeness(file: str, count: int, problems: list[str]) -> int:
    """Say of how many of ``count`` code objects there are no instructions; the exit code."""
    if not problems:
        return 0
    left_out = f"{len(problems)} of {counted(count, 'code object')} {plural(len(problems), 'is', 'are')} not listed"
    complain(f"{file}: {left_out}: {problems[0]}")
    return NO


def _files(listing: Listing) -> Iterator[str]:
    locations = listing.answers.locations
    for number in dict.fromkeys(listing.answers.location.tolist()):
        file = locations.strings[locations.file[number]]
        if file:
            yield file


def _shares(samples: PlacedSamples, total: Value, digest: str, listing: Listing) -> Shares:
    weights: Sequence[Value] = () if listing.problem else samples.on_instructions(digest, listing)
    return Shares(weights, total)


def _print(
    listing: Listing,
    sources: dict[str, SourceText],
    shares: Shares | None,
    around: SectionPlace | None,
    demangler: Demangler | None,
    *,
    first: bool,
) -> None:
    if not first:
        write_line()
    printer = Printer(sys.stdout)
    names = demangler.names(_functions(listing)) if demangler else {}
    for style, line in text_lines(listing, sources, names, shares, around):
        printer.write(style, line)
    printer.flush()


def _functions(listing: Listing) -> list[str]:
    locations = listing.answers.locations
    numbers = {*locations.function.tolist(), *locations.kernel.tolist()}
    return sorted({locations.strings[number] for number in numbers} - {""})
