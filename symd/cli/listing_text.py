"""The text of a listing: source lines beside their instructions, by source line or in the order of the code, plain or
in color on a terminal."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from operator import attrgetter
from pathlib import Path, PurePosixPath
from shlex import join
from typing import NamedTuple, TextIO

from symd.cli.output import is_coloured, printable, styled
from symd.model.answers import Answers, Frame
from symd.model.line_tables import Listing
from symd.model.sources import SourceText, TextOrigin
from symd.profiles.samples import Value
from symd.query.source_files import NOWHERE_ALLOWED, base_name

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
NO_PLACE: SectionPlace = (-1, -1)
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
    ordered = f"{_title(listing)}, by source line (--by-address shows them in address order)"
    yield "title", _title(listing) if around or listing.problem else ordered, range(len(listing.text))
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
    texts: dict[str, Sequence[str]] = {}
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
            if file not in texts:
                texts[file] = source.lines()
            yield "source", _source_line(line, texts[file]), numbers
        yield from _instructions(listing, numbers, frames_of, names, marked)


def _title(listing: Listing) -> str:
    module = f"modules/{listing.module}" if listing.module else ""
    return (
        "  ".join(part for part in (module, listing.path, listing.target or "", listing.disassembler) if part)
        or "module"
    )


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
    text = source.lines()
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
    return f"  ({missing_source_text(source)})" if source.problem else ""


def missing_source_text(source: SourceText) -> str:
    """Why there is no text of a source file, and the option that tells where it is."""
    option = missing_source_option(source)
    if not option:
        return source.problem
    if option[0] == "--source-root" and option[1] != _FOLDER:
        return f"it exists, and no allowed folder holds it: add {join(option)}"
    here = "; add" if option[1].endswith(_FOLDER) else "; a file of that name is here: add"
    return f"{source.problem}{here} {join(option)}"


_FOLDER = "FOLDER"
"""Stands for a folder that nobody but the user knows."""


def missing_source_option(source: SourceText) -> Sequence[str]:
    """The option by which the text of a source file is found, that file where it is here, or one of that name; () where
    another file is there."""
    path = Path(source.file)
    if not source.problem.endswith(NOWHERE_ALLOWED):
        return ()
    if path.is_absolute() and os.path.isfile(path):  # noqa: PTH113 - which is False where nobody may look
        return "--source-root", str(path.parent)
    if rule := _rule_for_a_file_here(source.file):
        return "--map", rule
    return ("--map", f"{path.parent}={_FOLDER}") if path.parent.name else ("--source-root", _FOLDER)


def _rule_for_a_file_here(file: str) -> str:
    """The value of --map by which the working directory has a source file; "" where it has none of that name."""
    *folders, _ = parts = PurePosixPath(file).parts or ("",)
    for number in range(1, len(parts)):
        if os.path.isfile(Path(*parts[number:])):  # noqa: PTH113 - which is False of a name that is too long
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
        yield "instruction", f"{indent}{_place(listing, number)}  {listing.text[number]}", (number,)


def _place(listing: Listing, number: int) -> str:
    """The instruction's place as ``symd symbolize`` takes it: its device address where one was asked for, its object
    address where code is linked, else an offset in its kernel, which has a section of its own, or in its section."""
    answers, device_address = listing.answers, listing.device_address(number)
    if device_address is not None:
        return f"{device_address:#x}"
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
