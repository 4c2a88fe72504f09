"""The instructions of rocprofv3's thread trace (ATT), ``code.json`` of a ``ui_output`` folder: empty source columns are
filled, and a member of symd's own has the frames. As a sample, a row is one instruction, with how often it ran and the
cycles it took and waited.

Source: ROCm/rocm-systems at 1b1610fc2, rocprofiler-sdk/source/lib/att-tool/code.cpp and cxx/codeobj/code_printing.hpp.
``code`` is a list of rows in the order that ``header`` names: ISA, _, LineNumber, Source, Codeobj, Vaddr, Hit, Latency,
Stall, Idle; Vaddr is an address of the code object's ELF, Codeobj its load id, 0 for code of no object. A row whose ISA
begins with ``;`` names the kernel of the rows after it, as its descriptor's symbol (``_Z1k.kd``), and readable as its
Source. Source is ``file:line`` of the innermost function and, where it was inlined, the call sites, outermost first,
between `` -> ``: such a row has its place already.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from symd.errors import Malformed
from symd.model.answers import Frame, Reason
from symd.model.json.answers import frame_json, frames_text
from symd.profiles import json_text
from symd.profiles.addresses import AddressBatch, AddressOrigin, AddressOrigins
from symd.profiles.profile_format import Options, ProfileBudget, Symbolized, Tally
from symd.profiles.resolver import Resolver
from symd.profiles.samples import (
    TIMES,
    AddressTable,
    Sample,
    SampledAddress,
    SampledModule,
    SampledProfile,
    ValueType,
    frames_of_json,
    within,
)

NAME = "att"
FRAMES = "symd_frames"
"""Added to the document: ``table``, a list of stacks, each a list of frames, innermost first; ``rows``, for each row of
``code`` the index of its stack, or null."""
SEPARATOR = " -> "
COLUMNS = ("ISA", "_", "LineNumber", "Source", "Codeobj", "Vaddr", "Hit", "Latency", "Stall", "Idle")
ISA, SOURCE, OBJECT, ADDRESS = 0, 3, 4, 5
PLACE = re.compile(r"(.*):([0-9]{1,18})", re.DOTALL)
_HEAD = re.compile(rb'\s*\{\s*"(?:code|header|version)"\s*:')
_HEADER = re.compile(rb'"header"\s*:\s*"ISA,\s*_,\s*LineNumber,\s*Source,\s*Codeobj,\s*Vaddr,')


def claims(data: bytes) -> bool:
    """An object that begins with one of the three members, and whose header has the six columns that say what a row
    is."""
    return bool(_HEAD.match(data[:4096])) and any(map(_HEADER.search, (data[:4096], data[-4096:])))


class AttRow(NamedTuple):
    """An instruction: its cells. ``kernel`` has its kernel's name, readable and mangled, where a row before says it."""

    cells: list[Any]
    kernel: tuple[str, str] | None = None

    @property
    def has_place(self) -> bool:
        """Whether the profiler found a file and a line."""
        source = self.cells[SOURCE]
        return isinstance(source, str) and any(map(PLACE.fullmatch, source.split(SEPARATOR)))


class AttDocument(NamedTuple):
    """What a profile of AMD's thread trace says. ``rows`` has None where a row names a kernel, or is none;
    ``table`` and ``earlier`` are the stacks of a run before, and for each row the number of its own."""

    whole: dict[str, Any]
    rows: list[AttRow | None]
    table: list[Any]
    earlier: list[int | None]


def read_document(data: bytes, spending: ProfileBudget) -> AttDocument:
    """The rows of ``code``. Raises Malformed."""
    text = json_text.decode(data)
    spending.read_json(text, 0, len(text))
    whole = json_text.only_value(text)
    if not isinstance(whole, dict):
        raise Malformed("the document is not an object", where=json_text.WHERE)
    code = whole.get("code")
    rows = list(_rows(code if isinstance(code, list) else []))
    added = whole.get(FRAMES, {"table": [], "rows": []})
    table, numbers = (added.get(key) if isinstance(added, dict) else None for key in ("table", "rows"))
    if not isinstance(table, list) or not isinstance(numbers, list):
        raise Malformed(f"{FRAMES!r} has no lists 'table' and 'rows'", where=json_text.WHERE)
    earlier = [within(at, len(table)) for at in numbers]
    return AttDocument(whole, rows, table, earlier + [None] * (len(rows) - len(earlier)))


def _rows(code: list[Any]) -> Iterator[AttRow | None]:
    """The rows of ``code``, instructions with their kernel."""
    kernels: dict[int, tuple[str, str]] = {}
    for cells in code:
        if not isinstance(cells, list) or len(cells) <= ADDRESS or not isinstance(cells[ISA], str):
            yield None
            continue
        owner = cells[OBJECT] if type(cells[OBJECT]) is int else None
        if cells[ISA].startswith(";"):
            symbol = cells[ISA].removeprefix(";").strip().removesuffix(".kd")
            readable = cells[SOURCE] if isinstance(cells[SOURCE], str) else ""
            if symbol and owner is not None:
                kernels[owner] = readable or symbol, symbol
            yield None
        else:
            yield AttRow(cells, None if owner is None else kernels.get(owner))


def symbolize(data: bytes, resolver: Resolver, options: Options) -> Symbolized:
    """Add frames to the rows that have none of an earlier run. A code object is known by its id, as the user named it:
    rocprofv3 leaves it beside the trace as ``…_code_object_id_ID.out``."""
    spending = ProfileBudget(options, len(data))
    document = read_document(data, spending)
    batch, tally = AddressBatch(), Tally()
    code_objects = AddressOrigins(resolver, options.limits, _origin)
    rows = list(document.earlier)
    pending: list[tuple[int, AttRow, int]] = []
    for number, row in enumerate(document.rows):
        if row is not None and rows[number] is not None:
            tally.already += 1
        elif row is not None:
            owner, address = row.cells[OBJECT], row.cells[ADDRESS]
            is_known = type(owner) is type(address) is int
            handle = batch.add(code_objects.target(owner or None), address) if is_known else batch.add(Reason.MALFORMED)
            pending.append((number, row, handle))
    answers = batch.ask(resolver, options.progress)
    table = list(document.table)
    numbers: dict[tuple[Frame, ...], int] = {}
    for number, row, handle in pending:
        answer = answers[handle]
        if not answer.frames and row.has_place:
            tally.already += 1
            continue
        tally.count(answer.reason, resolved=bool(answer.frames))
        if answer.frames:
            if answer.frames not in numbers:
                numbers[answer.frames] = len(table)
                table.append([frame_json(frame) for frame in answer.frames])
                spending.written(len(frames_text(answer.frames)))
            rows[number] = numbers[answer.frames]
            _fill_source(row, answer.frames)
    report = tally.report(NAME, "instructions", tuple(code_objects.notes))
    if not tally.resolved:
        return Symbolized(data, report)
    return Symbolized(json_text.written({**document.whole, FRAMES: {"table": table, "rows": rows}}), report)


def _fill_source(row: AttRow, frames: Sequence[Frame]) -> None:
    """Fill an empty source as ROCm writes it."""
    if row.cells[SOURCE] == "" and frames[0].file and frames[0].line:
        inner, *callers = (f"{frame.file}:{frame.line}" for frame in frames if frame.file)
        row.cells[SOURCE] = SEPARATOR.join([inner, *reversed(callers)])


def _origin(owner: int) -> AddressOrigin:
    return AddressOrigin((str(owner),), called=f"code object {owner}")


VALUES = (
    ValueType("latency", "cycles"),
    ValueType("hit", "count"),
    ValueType("stall", "cycles"),
    ValueType("idle", "cycles"),
)
_CELLS = tuple(COLUMNS.index(name) for name in ("Latency", "Hit", "Stall", "Idle"))


def read_samples(data: bytes, spending: ProfileBudget) -> SampledProfile:
    """The rows that are instructions; frames of symd where there are some, else the positions in the source column."""
    document = read_document(data, spending)
    found = SampledProfile(VALUES)
    addresses = AddressTable(found.addresses)
    modules: dict[int, int] = {}
    for row, number in zip(document.rows, document.earlier, strict=True):
        if row is None or type(row.cells[OBJECT]) is not int or type(row.cells[ADDRESS]) is not int:
            continue
        owner, address = row.cells[OBJECT], row.cells[ADDRESS]
        if owner and owner not in modules:
            modules[owner] = len(found.modules)
            found.modules.append(SampledModule(f"code object {owner}", identity=str(owner)))
        frames = frames_of_json(document.table[number]) if number is not None else _positions(row)
        label = f"code object {owner}+{address:#x}" if owner else f"{address:#x}"
        place = addresses.number(SampledAddress(label, frames, address, modules.get(owner)))
        cells = [row.cells[at] if at < len(row.cells) else 0 for at in _CELLS]
        found.samples.append(Sample((place,), tuple(within(cell, TIMES) or 0 for cell in cells)))
    found.notes.append("code.json sums over the trace and has no times")
    return found


def _positions(row: AttRow) -> tuple[Frame, ...]:
    """Frames, innermost first, of a source as ROCm writes it; of the functions it says only the kernel, which is the
    outermost."""
    source = row.cells[SOURCE]
    parts = source.split(SEPARATOR) if isinstance(source, str) and source else []
    places = [PLACE.fullmatch(part) for part in [*parts[:1], *reversed(parts[1:])]]
    known = [place for place in places if place]
    found = [
        Frame(None, None, place[1], int(place[2]), 0, inlined=at < len(known) - 1) for at, place in enumerate(known)
    ]
    if found and row.kernel is not None:
        name, symbol = row.kernel
        found[-1] = found[-1]._replace(function=name, linkage_name=symbol if symbol != name else None)
    return tuple(found)
