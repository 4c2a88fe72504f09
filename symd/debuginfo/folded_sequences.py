"""Line sequences of functions that a linker folded, and the lines that each function can have, as columns.

Of identical functions a linker keeps one, and the line tables of all lead to it (lld's ``--icf`` keeps them so, for
breakpoints), while the debug data of the others no longer says where they are. A sequence does not say whose it is.
Four rules decide, each among the sequences that the rules before it left: the sequence is in the table of a unit that
has a function there; in that of a unit that has code there (with lines alone no function says where it is); it begins
with a line that this function can have; it begins with one that nothing declared after this function can have, as
lambdas inside it do. If differing sequences are left, nobody knows which is that of the code.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.core import function_extents as core
from symd.core import text_layout
from symd.debuginfo.dwarf.columns import FunctionColumns, LineColumns, ScopeColumns, spread, unit_ranges
from symd.debuginfo.dwarf.sections import DebugSections
from symd.debuginfo.dwarf.units import Units
from symd.debuginfo.relocation import LinearLayout
from symd.debuginfo.text_ranges import section_of, text_spans
from symd.model.columns import I64, U32, U64, distinct
from symd.model.debug_info import NO_FUNCTION, NO_PARENT, FunctionLines, TextSpans


def function_lines(scopes: ScopeColumns) -> FunctionLines:
    """The lines of ``scopes.functions``, unit by unit."""
    functions = scopes.functions
    return FunctionLines(functions.unit, functions.file, functions.line, scopes.line_ends)


def lines_to_the_next(functions: FunctionColumns) -> U32:
    """Where the lines of each function would end if the next declaration in its file and unit ended them, also one
    inside it: the line of that."""
    return np.frombuffer(core.line_ends(np.concatenate(functions).data, bytes(len(functions.line))), np.uint32)


_NOBODY = -1


class FoldedSequences(NamedTuple):
    """What is known of the line sequences of functions that a linker folded. ``of_others`` says of each sequence
    whether it is that of a function which is not there (None where none is); ``doubted`` is the code that several
    sequences have, none of which is known to be that of the function there."""

    of_others: NDArray[np.bool_] | None
    doubted: TextSpans


NOTHING_FOLDED = FoldedSequences(None, TextSpans.empty())


def find_folded(
    sections: DebugSections,
    lines: LineColumns,
    scopes: ScopeColumns,
    units: Units,
    functions: FunctionLines,
    layout: LinearLayout,
) -> FoldedSequences:
    """The line sequences of folded functions in the line tables of an object, whose text ``layout`` places;
    ``functions`` are the lines of its functions."""
    if not text_layout.begin_together(lines.address.data, lines.ends.data):
        return NOTHING_FOLDED
    shared = _shared(lines, layout)
    if not len(shared):
        return NOTHING_FOLDED
    tables = _tables(lines, units)
    owners = _Owners.of(shared, lines, scopes, tables)
    left = _preferred(shared, np.ones(len(shared), np.bool_), owners.is_there)
    if _are_several(shared, left):
        left = _preferred(shared, left, _in_units_code(shared, lines, sections, units, tables))
    if _are_several(shared, left):
        begin = _FirstRows.of(shared, lines, scopes, owners)
        left = _preferred(shared, left, begin.fit(functions, functions.end, owners))
        nearest = np.minimum(functions.end, lines_to_the_next(scopes.functions))
        left = _preferred(shared, left, begin.fit(functions, nearest, owners))
    of_others = np.zeros(len(lines.ends), np.bool_)
    of_others[shared.sequence[~left]] = True
    return FoldedSequences(of_others, _doubted(shared, left, lines, layout))


class _Shared(NamedTuple):
    """Sequences that have code and begin where others do: their numbers, ascending, where they begin, and the number of
    that place."""

    sequence: I64
    start: U64
    place: I64

    def __len__(self) -> int:
        return len(self.sequence)

    def places_with(self, these: NDArray[np.bool_]) -> I64:
        """How many of ``these`` begin at each place."""
        return np.bincount(self.place[these], minlength=int(self.place.max(initial=-1)) + 1)


def begins_again(start: NDArray[np.integer[Any]], has_code: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether each sequence has code and begins where another sequence with code begins; ``start`` has their places
    as numbers."""
    which = np.flatnonzero(has_code)
    which = which[np.argsort(start[which], kind="stable")]
    same = start[which[1:]] == start[which[:-1]]
    found = np.zeros(len(start), np.bool_)
    found[which[1:][same]] = found[which[:-1][same]] = True
    return found


def _shared(lines: LineColumns, layout: LinearLayout) -> _Shared:
    starts = lines.starts
    sequence = np.flatnonzero(begins_again(starts, lines.address[lines.ends - 1] > starts))
    start = starts[sequence]
    _, _, in_text = section_of(layout, start)
    sequence, start = sequence[in_text], start[in_text]
    return _Shared(sequence, start, np.searchsorted(distinct(start), start))


def _preferred(shared: _Shared, left: NDArray[np.bool_], told: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The sequences of ``left`` that are ``told``, at places where one is; at other places all of ``left``."""
    some = shared.places_with(left & told) > 0
    return left & (told | ~some[shared.place])


def _are_several(shared: _Shared, left: NDArray[np.bool_]) -> bool:
    return bool((shared.places_with(left) > 1).any())


class _Owners(NamedTuple):
    """For each sequence the function that begins where it does and belongs to a unit of its table: its number among
    ``ScopeColumns.functions`` (NO_FUNCTION: unknown), whether there is one, and where its code ends."""

    function: U32
    is_there: NDArray[np.bool_]
    end: U64

    @classmethod
    def of(cls, shared: _Shared, lines: LineColumns, scopes: ScopeColumns, tables: I64) -> _Owners:
        """The owner of each sequence; of several functions the first speaks for all."""
        addresses = distinct(shared.start)
        own = np.flatnonzero(scopes.parent[scopes.range_scope] == NO_PARENT)
        place, begins_there = _found(addresses, scopes.range_start[own])
        table = tables[scopes.unit[scopes.range_scope[own]]]
        begins_there &= table != _NOBODY
        own, key = own[begins_there], _key(place[begins_there], table[begins_there], lines)
        order = np.argsort(key, kind="stable")
        wanted = _key(shared.place, lines.table[shared.sequence], lines)
        if not len(own):
            return cls(np.full(len(shared), NO_FUNCTION, np.uint32), np.zeros(len(shared), np.bool_), shared.start)
        first, is_there = _found(key[order], wanted)
        range_ = own[order[first]]
        function = np.where(is_there, scopes.function[scopes.range_scope[range_]], np.uint32(NO_FUNCTION))
        return cls(function, is_there, np.where(is_there, scopes.range_end[range_], shared.start))


def _key(place: I64, table: NDArray[np.integer[Any]], lines: LineColumns) -> I64:
    """One number for a place and a table."""
    return place * len(lines.tables) + table


def _found(values: NDArray[np.integer[Any]], wanted: NDArray[np.integer[Any]]) -> tuple[I64, NDArray[np.bool_]]:
    """Where each of ``wanted`` first is in the ordered ``values``, which are some; whether it does."""
    place = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
    return place, values[place] == wanted


def _tables(lines: LineColumns, units: Units) -> I64:
    """The number of the line table of each unit, by the unit's number; -1 where it has none."""
    number = {offset: table for table, offset in enumerate(lines.tables)}
    found = np.full(max((unit.number for unit in units.units), default=-1) + 1, _NOBODY)
    for unit in units.units:
        found[unit.number] = number.get(-1 if unit.stmt_list is None else unit.stmt_list, _NOBODY)
    return found


def _in_units_code(
    shared: _Shared, lines: LineColumns, sections: DebugSections, units: Units, tables: I64
) -> NDArray[np.bool_]:
    """Whether a range of a unit of its table begins where each sequence does."""
    ranges = unit_ranges(sections, units.units)
    number = np.array([unit.number for unit in units.units], np.int64)
    table = tables[number[ranges.which]]
    place, begins_there = _found(distinct(shared.start), ranges.start)
    begins_there &= table != _NOBODY
    held = _key(place[begins_there], table[begins_there], lines)
    found: NDArray[np.bool_] = np.isin(_key(shared.place, lines.table[shared.sequence], lines), held)
    return found


class _FirstRows(NamedTuple):
    """The file and line with which each sequence begins that has a line of its owner: the first outside of inlined
    calls (line 0: none)."""

    file: U32
    line: U32

    @classmethod
    def of(cls, shared: _Shared, lines: LineColumns, scopes: ScopeColumns, owners: _Owners) -> _FirstRows:
        row, which = _rows_of(shared, lines)
        address = lines.address[row]
        own = (lines.line[row] > 0) & (address < owners.end[which]) & ~_is_inlined(scopes, address)
        row, which = row[own], which[own]
        begins = np.append(True, which[1:] != which[:-1])[: len(which)]
        file, line = np.zeros(len(shared), np.uint32), np.zeros(len(shared), np.uint32)
        file[which[begins]], line[which[begins]] = lines.file[row[begins]], lines.line[row[begins]]
        return cls(file, line)

    def fit(self, functions: FunctionLines, end: U32, owners: _Owners) -> NDArray[np.bool_]:
        """Whether the owners can have these lines, if theirs go up to ``end``. A function whose file is not said may be
        of any."""
        known = (owners.function != NO_FUNCTION) & (self.line > 0)
        function = owners.function[known]
        file, line = self.file[known], self.line[known]
        same_file = (functions.file[function] == file) | (functions.file[function] == 0)
        found: NDArray[np.bool_] = known.copy()
        found[known] = same_file & (functions.first[function] <= line) & (line < end[function])
        return found


def _rows_of(shared: _Shared, lines: LineColumns) -> tuple[I64, I64]:
    """The rows of all these sequences, and the place of each one's among them."""
    first, stop = lines.first[shared.sequence], lines.ends[shared.sequence]
    begin = np.cumsum(stop - first) - (stop - first)
    which = spread(np.arange(len(shared)), begin, int((stop - first).sum()))
    return np.arange(len(which)) + (first - begin)[which], which


def _is_inlined(scopes: ScopeColumns, address: U64) -> NDArray[np.bool_]:
    """Whether the addresses lie in inlined calls."""
    is_call = scopes.parent[scopes.range_scope] != NO_PARENT
    start, end = np.sort(scopes.range_start[is_call]), np.sort(scopes.range_end[is_call])
    inside: NDArray[np.bool_] = np.searchsorted(start, address, "right") > np.searchsorted(end, address, "right")
    return inside


def _doubted(shared: _Shared, left: NDArray[np.bool_], lines: LineColumns, layout: LinearLayout) -> TextSpans:
    """The code of places at which sequences are ``left`` that differ."""
    left_over = _Shared(shared.sequence[left], shared.start[left], shared.place[left])
    _, model = np.unique(left_over.place, return_index=True)
    differs = np.zeros(len(model), np.bool_)
    differs[left_over.place[_is_other(left_over, model, lines)]] = True
    stop = np.zeros(len(model), np.uint64)
    np.maximum.at(stop, left_over.place, lines.address[lines.ends[left_over.sequence] - 1])
    return text_spans(layout, left_over.start[model][differs], stop[differs])


def _is_other(shared: _Shared, model: I64, lines: LineColumns) -> NDArray[np.bool_]:
    """Whether each sequence says otherwise than the one that is the ``model`` of its place."""
    first, stop = lines.first[shared.sequence], lines.ends[shared.sequence]
    size, compared = stop - first, model[shared.place]
    row, which = _rows_of(shared, lines)
    same_size = size == size[compared]
    row, which = row[same_size[which]], which[same_size[which]]
    other = row - first[which] + first[compared[which]]
    columns = (lines.address, lines.file, lines.line, lines.column)
    is_other: NDArray[np.bool_] = ~same_size
    is_other[which[np.any([column[row] != column[other] for column in columns], axis=0)]] = True
    return is_other
