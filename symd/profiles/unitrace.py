"""unitrace's EU stall sampling CSV: every row gains columns with its source line. As a sample, a row is one instruction
with its counters as values. unitrace sums over the whole run, so there are no times, and no stacks but inlined frames.

Source: intel/pti-gpu at fcd0ca813a6c, tools/unitrace: a header ``Kernel, IP[Address], Active[Events], ...`` and rows of
the kernel's name, the hexadecimal offset of the instruction from the kernel's first byte, and a counter a column,
right-aligned with spaces. The name is quoted and demangled; other reports of the tool add ``[SIMD32 {groups} {group
size}]`` to it. A file may hold a block a device, each with its header, and other lines between.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence

from symd.errors import Malformed
from symd.model.answers import Frame, Reason
from symd.profiles import json_text
from symd.profiles.addresses import AddressBatch, ResolvedAddress
from symd.profiles.profile_format import Options, ProfileBudget, Progress, Symbolized, Tally, no_progress
from symd.profiles.resolver import LookupTarget, Resolver
from symd.profiles.samples import (
    AddressTable,
    Sample,
    SampledAddress,
    SampledProfile,
    ValueType,
    frame_of_text,
    shown_name,
)

NAME = "unitrace"
ADDED = ", Function, File, Line, Column, User File, User Line, Stack"
"""What a header gains: innermost function, file, line and column, the outermost ("user") line, and all frames."""
NOTHING = "," * ADDED.count(",")
"""What a row gains that has no answer."""
PROGRESS_LINES = 1 << 14
"""Progress is told once in so many lines."""

_LINE_ENDS = re.compile(r"([\r\n]+)")
"""What stands between lines, which a split keeps: every other part is a line."""
_HEADER = re.compile(r"[ \t]*+Kernel[ \t]*+,[ \t]*+IP\[Address\][ \t]*+,.*+")
_ROW = re.compile(
    r'[ \t]*+(?:"((?:[^"]|"")*+)"[ \t]*+|([^",]*+)),[ \t]*+(?:0[xX])?([0-9a-fA-F]{1,16})[ \t]*+,[^\r\n]*+'
)


def claims(data: bytes) -> bool:
    return any(map(_HEADER.fullmatch, _LINE_ENDS.split(json_text.decode(data[: 1 << 16]))))


def symbolize(data: bytes, resolver: Resolver, options: Options) -> Symbolized:
    """Add columns to the rows whose kernel is in exactly one module that has no identity. The samples are summed
    over all modules that were loaded, so a name in two modules is AMBIGUOUS."""
    text = json_text.decode(data)
    tally = Tally()
    batch = AddressBatch()
    kernels = _KernelTargets(resolver, batch)
    lines = _LINE_ENDS.split(text)
    rows: list[tuple[int, int]] = []
    spending = ProfileBudget(options, len(data))
    for number, row, extended in each_row(lines, options.progress):
        spending.read()
        if row is None:
            lines[number] += "" if extended else ADDED
        elif extended and not lines[number].endswith(NOTHING):
            tally.already += 1
        else:
            lines[number] = lines[number].removesuffix(NOTHING) if extended else lines[number]
            rows.append((number, kernels.handle(row)))
    answers = batch.ask(resolver, options.progress)
    written = [_columns(answer) for answer in answers]
    for number, handle in rows:
        tally.count(answers[handle].reason, resolved=bool(answers[handle].frames))
        spending.written(len(written[handle]))
        lines[number] += written[handle]
    report = tally.report(NAME, "rows", kernels.notes())
    return Symbolized(json_text.encode("".join(lines)) if tally.resolved else data, report)


def each_row(
    lines: Sequence[str], progress: Progress = no_progress
) -> Iterator[tuple[int, re.Match[str] | None, bool]]:
    """The numbers of headers (without a match) and of the rows below them; the flag says whether their header has the
    added columns. Raises Malformed where there is no header."""
    extended: bool | None = None
    any_header = False
    for number in range(0, len(lines), 2):
        line = lines[number]
        if number % PROGRESS_LINES == 0:
            progress("reading rows", number, len(lines))
        if _HEADER.fullmatch(line):
            extended, any_header = line.endswith(ADDED), True
            yield number, None, extended
        elif extended is not None and line:
            row = _ROW.fullmatch(line)
            if row:
                yield number, row, extended
            else:
                extended = None
    if not any_header:
        raise Malformed(
            "has no heading of unitrace's stall sampling", where=json_text.WHERE, hint="it is Kernel, IP[Address], ..."
        )


class _KernelTargets:
    """Finds the target of a kernel name, each name once."""

    def __init__(self, resolver: Resolver, batch: AddressBatch) -> None:
        self._resolver = resolver
        self._batch = batch
        self._known: dict[str, LookupTarget | Reason] = {}

    def handle(self, row: re.Match[str]) -> int:
        quoted, bare, offset = row.groups()
        name = quoted.replace('""', '"') if quoted is not None else bare.strip()
        if name not in self._known:
            self._known[name] = self._resolver.kernel_with_width(name)
        return self._batch.add(self._known[name], int(offset, 16))

    def notes(self) -> tuple[str, ...]:
        """The names that could not be used."""
        why = {Reason.UNKNOWN_KERNEL: "is in no given module", Reason.AMBIGUOUS: "is in several given modules"}
        return tuple(
            f"kernel {name} {why[how]}{self._resolver.did_you_mean(name) if how is Reason.UNKNOWN_KERNEL else ''}"
            for name, how in self._known.items()
            if isinstance(how, Reason)
        )


def _columns(answer: ResolvedAddress) -> str:
    if not answer.frames:
        return NOTHING
    inner, user = answer.frames[0], answer.frames[-1]
    stack = " <- ".join(map(_stack_entry, answer.frames))
    cells = (_name(inner), inner.file or "", inner.line, inner.column, user.file or "", user.line, stack)
    return "".join(f", {cell}" if isinstance(cell, int) else f", {_quoted(cell)}" for cell in cells)


def _name(frame: Frame) -> str:
    return shown_name(frame) if frame.file else frame.function or frame.linkage_name or ""


def _stack_entry(frame: Frame) -> str:
    if not frame.file:
        return _name(frame)
    place = f"{frame.file}:{frame.line}"
    return f"{_name(frame)} ({place}:{frame.column})" if frame.column else f"{_name(frame)} ({place})"


def _quoted(text: str) -> str:
    """A CSV cell on one line (RFC 4180, section 2)."""
    return '"' + " ".join(text.splitlines()).replace('"', '""') + '"'


_COUNTER = re.compile(r"(.*)\[(.*)\]")
_COUNT = re.compile(r"[0-9]{1,18}")
STACK = "Stack"


def read_samples(data: bytes, spending: ProfileBudget) -> SampledProfile:
    """The rows of every device's block; a counter that a block lacks is 0 there."""
    lines = _LINE_ENDS.split(json_text.decode(data))
    found = SampledProfile(())
    addresses = AddressTable(found.addresses)
    types: dict[ValueType, int] = {}
    header: list[str] = []
    rows: list[tuple[int, dict[int, int]]] = []
    for number, row, _ in each_row(lines):
        spending.read()
        cells = next(csv.reader([lines[number]], skipinitialspace=True), [])
        if row is None:
            header = [cell.strip() for cell in cells]
            continue
        named = dict(zip(header, (cell.strip() for cell in cells), strict=False))
        values = {}
        for name, cell in list(named.items())[2:]:
            kind = _value_type(name)
            if kind is not None and _COUNT.fullmatch(cell):
                values[types.setdefault(kind, len(types))] = int(cell)
        rows.append((addresses.number(_address(cells, named)), values))
    found.value_types = tuple(types) or (ValueType("samples", "count"),)
    width = len(found.value_types)
    spending.read_table(len(rows), width)
    found.samples = [Sample((at,), tuple(values.get(number, 0) for number in range(width))) for at, values in rows]
    found.notes.append("unitrace sums over the run and has no timestamps")
    return found


def _value_type(name: str) -> ValueType | None:
    """``Active[Events]`` counts Active in Events; None for a column that symd added."""
    if name in (part.strip() for part in ADDED.split(",")):
        return None
    found = _COUNTER.fullmatch(name)
    return ValueType(*found.groups()) if found else ValueType(name, "")


def _address(cells: list[str], named: dict[str, str]) -> SampledAddress:
    offset = int(cells[1].strip().removeprefix("0x").removeprefix("0X"), 16)
    parts = filter(None, named.get(STACK, "").split(" <- "))
    frames = [frame_of_text(part) or Frame(part, None, None, 0, 0, inlined=False) for part in parts]
    stack = tuple(frame._replace(inlined=at < len(frames) - 1) for at, frame in enumerate(frames))
    return SampledAddress(f"{cells[0].strip()}+{offset:#x}", stack, offset)
