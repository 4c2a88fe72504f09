"""Line rows and scopes of a code object: relocation first, then the decoding of whatever kind of debug data it has.
Addresses leave this room as (section, offset).

The depth of nested scopes is bounded, because an address has a frame for each inlined call around it: a few bytes of
debug data could ask for any number of frames a million times.

Intel's compiler dumps kernels as ELF images whose only name for them is that of the function at the start of their
text, and writes blocks and variables with code outside the function's own ranges; the range does not say whose code
that is.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from symd.config import DEFAULT_LIMITS, Limits
from symd.core import text_layout
from symd.debuginfo import leaves_out_calls, row_scopes
from symd.debuginfo.dwarf.columns import (
    LineColumns,
    Positions,
    ScopeColumns,
    ScopeSource,
    line_columns,
    read_scope_dies,
    scope_columns,
    unit_ranges,
)
from symd.debuginfo.dwarf.lines import may_have_texts, read_tables_of
from symd.debuginfo.dwarf.sections import DebugSections
from symd.debuginfo.dwarf.units import Units, read_units, units_for_addresses
from symd.debuginfo.folded_sequences import FoldedSequences, find_folded, function_lines
from symd.debuginfo.line_table_texts import doubting_rows_outside, line_table_texts
from symd.debuginfo.relocation import GAP, LinearLayout, linear_layout, relocated
from symd.debuginfo.text_ranges import TextRanges, text_spans
from symd.errors import SymdError
from symd.formats.budget import DebugBudget, beyond
from symd.formats.elf import debug_link
from symd.model.code import CodeKind, CodeObject, DebugScheme, Kernel, Vendor
from symd.model.columns import U32, U64
from symd.model.debug_info import NO_PARENT, DebugInfo, FunctionLines, LineRows, RowCalls, Scopes, TextSpans

INLINE_DEPTH = 1000
"""Functions and inlined calls inside each other in one code object's debug data: as many frames an address may have."""


def check_depth(scopes: Scopes) -> None:
    """Raises LimitExceeded where more than ``INLINE_DEPTH`` scopes are inside each other."""
    if deeper_than(scopes.parent, INLINE_DEPTH):
        what = f"more than {INLINE_DEPTH} functions and inlined calls stand inside each other"
        raise beyond("inline_depth", INLINE_DEPTH, what)


def deeper_than(parent: U32, depth: int) -> bool:
    """Whether a scope has at least ``depth`` others around it; ``parent`` is that of each, or NO_PARENT.

    The scope 2 to the power of k steps out is the one 2 to the power of k - 1 steps out, taken twice: the binary digits
    of ``depth`` say which of these steps lead from a scope to the one ``depth`` steps out. So of 13 = 0b1101 steps the
    first is 1, then 4, then 8.
    """
    if len(parent) <= depth:
        return False
    nobody = len(parent)
    step = np.append(np.where(parent == NO_PARENT, nobody, parent), nobody).astype(np.int64)
    around = np.arange(nobody)
    while depth:
        if depth & 1:
            around = step[around]
        depth >>= 1
        step = step[step]
    return bool((around != nobody).any())


def named(code: CodeObject, debug: DebugInfo) -> CodeObject:
    """``code`` with one kernel over its text, named after the function there; unchanged where it has kernels, functions
    or several text sections, or the debug data has no such function."""
    if not code.kernel_named_by_debug_data:
        return code
    texts = [section for section in code.sections if section.executable]
    if len(texts) != 1:
        return code
    scopes = debug.scopes
    first = np.flatnonzero((scopes.range_offset == 0) & (scopes.parent[scopes.range_scope] == NO_PARENT))
    if not len(first):
        return code
    name = debug.names[int(scopes.name[scopes.range_scope[first[0]]])]
    return code._replace(kernels=(Kernel(name, texts[0].index, 0, texts[0].size),))


_SMALL, _TOGETHER = 1 << 16, 32
"""Bytes of a code object that is read beside others, and how many are."""


def read(code: CodeObject, limits: Limits = DEFAULT_LIMITS, budget: DebugBudget | None = None) -> DebugInfo:
    """Everything decoded from a code object. Raises Malformed or Unsupported where nothing of it can be trusted, and
    LimitExceeded; what can be left out becomes a warning. ``budget`` is that of its module; without, the code object
    has one for itself."""
    [(_, found)] = _side_by_side([code], budget or DebugBudget.of(code, limits))
    if isinstance(found, SymdError):
        raise found
    return found


class _Reading:
    """A code object that is read step by step, each of which says more of it; the last one says what was ``found``, and
    an earlier one may."""

    __slots__ = (
        "budget", "code", "folded", "found", "functions", "layout", "lines", "placed", "rows", "scopes", "sections",
        "strays", "units",
    )  # fmt: skip
    layout: LinearLayout
    sections: DebugSections
    units: Units
    lines: LineColumns
    scopes: ScopeColumns
    functions: FunctionLines
    folded: FoldedSequences
    rows: LineRows
    placed: Scopes
    strays: TextSpans

    def __init__(self, code: CodeObject, budget: DebugBudget) -> None:
        self.code, self.budget = code, budget
        self.found: DebugInfo | SymdError | None = None


def _open(reading: _Reading) -> None:
    code = reading.code
    if code.debug is DebugScheme.NONE and not (code.kind is CodeKind.SPIRV and "build_id" in code.facts):
        reading.found = DebugInfo(LineRows.empty(), Scopes.empty(), warnings=_debug_file(code))
    elif code.kind is CodeKind.SPIRV:
        debug = _read_spirv(code)
        check_depth(debug.scopes)
        reading.found = debug
    else:
        reading.layout = linear_layout(code)


def _relocate(reading: _Reading) -> None:
    reading.sections = relocated(reading.code, reading.layout, reading.budget)


def _read_units(reading: _Reading) -> None:
    reading.units = read_units(reading.sections)


def _read_lines(readings: Sequence[_Reading]) -> None:
    tables = read_tables_of([(each.sections, each.units) for each in readings])
    for reading, lines in zip(readings, line_columns(tables), strict=True):
        reading.lines = lines


def _read_scopes(readings: Sequence[_Reading]) -> None:
    objects = [ScopeSource(each.sections, each.lines, each.units) for each in readings]
    for reading, scopes in zip(readings, scope_columns(objects, read_scope_dies(objects)), strict=True):
        reading.scopes = scopes


def _read_spirv(code: CodeObject) -> DebugInfo:
    from symd.debuginfo.spirv import lines  # noqa: PLC0415 - 8 of the 170 ms of a question about machine code

    info = lines.read_doubted(code)
    return _with_scopes_of_rows(code, info) if leaves_out_calls(code) else info


def _with_scopes_of_rows(
    code: CodeObject, info: DebugInfo, linear: tuple[LinearLayout, DebugSections] | None = None
) -> DebugInfo:
    """What was decoded, with the scopes that the rows of NVIDIA's image in this layout tell of, or those of SPIR-V."""
    if linear is None:
        return row_scopes.without_told_calls(code, info)
    return row_scopes.with_inlined_rows(code, info, *linear)


def _debug_file(code: CodeObject) -> tuple[str, ...]:
    link = debug_link(code.sections)
    if link is None:
        return ()
    name = link.name.decode("utf-8", "replace")
    return (f"debug data is in {name} (.gnu_debuglink, CRC-32 {link.checksum:#010x}), which is not here",)


def read_each(
    objects: Sequence[CodeObject], limits: Limits = DEFAULT_LIMITS, stored: int | None = None
) -> list[tuple[CodeObject, DebugInfo | SymdError]]:
    """``read_in_turn`` of them all. Without ``stored`` they are taken for all that their file holds."""
    return list(read_in_turn(objects, limits, sum(len(code.data) for code in objects) if stored is None else stored))


def read_in_turn(
    objects: Iterable[CodeObject], limits: Limits, stored: int
) -> Iterator[tuple[CodeObject, DebugInfo | SymdError]]:
    """Each code object of a module with everything decoded from it, or why it cannot be; kernels that only the debug
    data names are added to it. ``stored`` is the size of the module's file. Small ones are read some at a time, step by
    step: the processor's caches hold the code of one step, so that each takes two thirds of the time."""
    budget = DebugBudget(limits, stored)
    waiting: list[CodeObject] = []
    for code in objects:
        is_small = len(code.data) <= _SMALL
        if is_small:
            waiting.append(code)
        if len(waiting) == _TOGETHER or not is_small:
            yield from _some_in_turn(waiting, budget)
            waiting = []
        if not is_small:
            found = [read_or_refused(code, budget)]
            del code  # a large one, which this generator would keep while it waits
            yield found.pop()
    yield from _some_in_turn(waiting, budget)


def read_or_refused(code: CodeObject, budget: DebugBudget) -> tuple[CodeObject, DebugInfo | SymdError]:
    """One of ``read_in_turn``; ``budget`` is that of its module."""
    return _side_by_side([code], budget)[0]


def _some_in_turn(objects: Sequence[CodeObject], budget: DebugBudget) -> list[tuple[CodeObject, DebugInfo | SymdError]]:
    """Decode several code objects side by side; where they pass a limit together, or one of them cannot be decoded,
    one by one, so that each is read as if it were alone."""
    trial = budget.trial()
    found = _side_by_side(objects, trial)
    if any(isinstance(debug, SymdError) for _, debug in found):
        return [read_or_refused(code, budget) for code in objects]
    budget.accept(trial)
    return found


def _side_by_side(objects: Sequence[CodeObject], budget: DebugBudget) -> list[tuple[CodeObject, DebugInfo | SymdError]]:
    """Some of ``read_in_turn``, step by step. Where one of several cannot be decoded none is."""
    readings = [_Reading(code, budget) for code in objects]
    for step in (_open, _relocate, _read_units):
        for reading in readings:
            if reading.found is None:
                try:
                    step(reading)
                except SymdError as error:
                    reading.found = error
    opened = [each for each in readings if each.found is None]
    try:
        _decode(opened)
    except SymdError as error:
        for reading in opened:
            reading.found = error
    return [
        (each.code if isinstance(each.found, SymdError) else named(each.code, each.found), each.found)
        for each in readings
        if each.found is not None
    ]


def _decode(readings: Sequence[_Reading]) -> None:
    """Take the steps for code objects whose units are read, each for all of them: they share rows and columns, so that
    a small one costs none of its own. Raises what a step raises for one of them."""
    if not readings:
        return
    _read_lines(readings)
    _read_scopes(readings)
    for reading in readings:
        _find_folded(reading)
    _place_rows(readings)
    _place_scopes(readings)
    _find_strays(readings)
    for reading in readings:
        reading.found = _whole(reading)


class PartialDebugInfo(NamedTuple):
    """What was decoded of a code object for some places: all that there is to say about ``text``, and nothing of
    the rest."""

    debug: DebugInfo
    text: TextRanges


def read_part(
    code: CodeObject, places: Sequence[tuple[int, int]], limits: Limits = DEFAULT_LIMITS
) -> PartialDebugInfo | None:
    """Decode only the units of ``.debug_info`` that hold these places (section numbers and offsets in them). None where
    all must be read: few units, units without rows, places in no function of theirs, debug data that names the kernels
    or has its inlined calls in the line table. Raises what ``read`` raises."""
    if not code.debug.has_units or code.kernel_named_by_debug_data:
        return None
    layout = linear_layout(code)
    sections = relocated(code, layout, DebugBudget.of(code, limits))
    units = read_units(sections)
    if any(unit.dwo_id is not None for unit in units.units):
        return None
    chosen = units_for_addresses(sections, units, layout.linear(places))
    if chosen is None:
        return None
    reading = _Reading(code, sections.budget or DebugBudget.of(code, limits))
    reading.layout, reading.sections, reading.units = layout, sections, chosen.units
    _decode([reading])
    debug = reading.found
    if not isinstance(debug, DebugInfo) or debug.rows.calls is not None or not len(debug.rows):
        return None
    spans = TextRanges(*text_spans(layout, *np.array(chosen.spans, np.uint64).T))
    held = _functions(code, debug.scopes).inside(spans)
    return PartialDebugInfo(debug, held) if all(held.holds(*place) for place in places) else None


def _functions(code: CodeObject, scopes: Scopes) -> TextRanges:
    """The text of functions, by debug data or symbols. What is said of text of nobody may come from anywhere."""
    symbols = np.array([each[1:4] for each in code.functions], np.uint64).reshape(-1, 3)
    return TextRanges(
        np.append(scopes.range_section, symbols[:, 0].astype(np.uint32)),
        np.append(scopes.range_offset, symbols[:, 1]),
        np.append(scopes.range_end, symbols[:, 1] + symbols[:, 2]),
    )


def _find_folded(reading: _Reading) -> None:
    reading.functions = function_lines(reading.scopes)
    reading.folded = find_folded(
        reading.sections, reading.lines, reading.scopes, reading.units, reading.functions, reading.layout
    )


def _place_rows(readings: Sequence[_Reading]) -> None:
    """A whole sequence belongs to the section in which it starts; sequences that start in none are dead code that a
    linker dropped, and those of folded functions are left out. The addresses of lines become offsets where they
    stand."""
    section, is_kept = text_layout.place_rows(
        [each.layout for each in readings],
        GAP,
        [each.lines.address.data for each in readings],
        [each.lines.ends.data for each in readings],
        [None if each.folded.of_others is None else each.folded.of_others.tobytes() for each in readings],
    )
    first = 0
    for reading in readings:
        lines = reading.lines
        last = first + len(lines.ends)
        reading.rows = _rows(lines, section[first:last], is_kept[first:last])
        first = last


def _place_scopes(readings: Sequence[_Reading]) -> None:
    numbers, offsets, are_found = text_layout.sections_of(
        [each.layout for each in readings], GAP, [each.scopes.range_start.data for each in readings]
    )
    section, offset = np.frombuffer(numbers, np.uint32), np.frombuffer(offsets, np.uint64)
    first = 0
    for reading in readings:
        last = first + len(reading.scopes.range_start)
        reading.placed = _scopes(reading.scopes, section[first:last], offset[first:last], are_found[first:last])
        first = last


def _find_strays(readings: Sequence[_Reading]) -> None:
    for reading in readings:
        reading.strays = TextSpans.empty()
    several = [each for each in readings if each.code.vendor is Vendor.INTEL and each.scopes.shared_units]
    if not several:
        return
    from symd.debuginfo.variables.location_lists import StraySource, stray_ranges  # noqa: PLC0415 - 8 of the 170 ms of a question about another unit

    found = stray_ranges([StraySource(each.sections, each.units, each.scopes, each.layout) for each in several])
    for reading, strays in zip(several, found, strict=True):
        reading.strays = strays


def _whole(reading: _Reading) -> DebugInfo:
    debug = _joined(reading)
    check_depth(debug.scopes)
    for section in reading.code.sections:
        if section.name.startswith(".debug_"):
            section.forget()  # half of a file with debug data
    return debug


def _joined(reading: _Reading) -> DebugInfo:
    code, layout, sections, units = reading.code, reading.layout, reading.sections, reading.units
    lines, scopes, folded = reading.lines, reading.scopes, reading.folded
    missing = units.missing_files() if any(unit.dwo_name for unit in units.units) else ()
    info = DebugInfo(
        reading.rows,
        reading.placed,
        lines.files,
        scopes.names,
        (*lines.warnings, *scopes.warnings, *missing),
        reading.functions,
        _elsewhere(layout, sections, units),
        reading.strays,
        folded.doubted,
    )
    if not len(info.scopes) and code.vendor is Vendor.NVIDIA:
        info = _with_scopes_of_rows(code, info, (layout, sections))
    if not may_have_texts(sections.lines.data):
        return info
    return doubting_rows_outside(info, lambda: list(line_table_texts(sections)))


def _elsewhere(layout: LinearLayout, sections: DebugSections, units: Units) -> TextSpans:
    """The code of units whose functions are in files that are not here; a unit that names its inlined calls all the
    same (``-fsplit-dwarf-inlining``) lacks variables only."""
    missing = tuple(each for each in units.units if each.dwo_name and not each.contributions and not each.has_children)
    if not missing:
        return TextSpans.empty()
    ranges = unit_ranges(sections, missing)
    return text_spans(layout, ranges.start, ranges.end)


def _rows(lines: LineColumns, section: array[int], is_kept: bytearray) -> LineRows:
    """The rows of the sequences that are kept, each of which is in a section."""
    are_all = 0 not in is_kept
    keep = slice(None) if are_all else np.flatnonzero(lines.per_row(np.frombuffer(is_kept, np.bool_)))
    if are_all and len(set(section)) == 1:
        sections = np.ndarray((len(lines),), np.uint32, section.tobytes(), strides=(0,))
    else:
        sections = lines.per_row(np.frombuffer(section, np.uint32))
    if are_all and lines.calls is None:
        return LineRows(sections, lines.address, lines.file, lines.line, lines.column, lines.flags)
    return LineRows(
        section=sections[keep],
        offset=lines.address[keep],
        file=lines.file[keep],
        line=lines.line[keep],
        column=lines.column[keep],
        flags=lines.flags[keep],
        calls=None if lines.calls is None else _kept_calls(lines.calls, keep),
    )


def _kept_calls(calls: RowCalls, keep: slice | Positions) -> RowCalls:
    return RowCalls(
        _renumbered(calls.site, keep),
        calls.name[keep],
        _renumbered(calls.written_site, keep),
        calls.written_name[keep],
        calls.doubt[keep],
    )


def _renumbered(context: U32, keep: slice | Positions) -> U32:
    """The call sites of the rows that are kept, as numbers among these; a sequence is kept whole."""
    number = np.zeros(len(context) + 1, np.uint32)
    number[1:][keep] = 1
    number[1:] = np.cumsum(number[1:], dtype=np.uint32)
    return number[context[keep]]


def _scopes(scopes: ScopeColumns, section: U32, offset: U64, are_found: bytearray) -> Scopes:
    """Scopes with those ranges that are in a section."""
    of_scope, end = scopes.range_scope, offset + (scopes.range_end - scopes.range_start)
    if 0 in are_found:
        found = np.frombuffer(are_found, np.bool_)
        of_scope, section, offset, end = of_scope[found], section[found], offset[found], end[found]
    return Scopes(
        scopes.parent,
        scopes.name,
        scopes.linkage_name,
        scopes.inlined,
        scopes.call_file,
        scopes.call_line,
        scopes.call_column,
        of_scope,
        section,
        offset,
        end,
        scopes.function,
    )
