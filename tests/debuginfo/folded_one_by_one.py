"""What `symd.debuginfo.folded_sequences` finds, found again place by place and row by row, as its words say it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from symd.debuginfo.dwarf.columns import DieRanges, LineColumns, ScopeColumns
from symd.debuginfo.dwarf.units import Units
from symd.debuginfo.folded_sequences import lines_to_the_next
from symd.debuginfo.relocation import LinearLayout
from symd.debuginfo.text_ranges import section_of
from symd.model.debug_info import NO_FUNCTION, NO_PARENT, FunctionLines

Row = tuple[int, int, int, int]
"""Address, file, line, column."""
Span = tuple[int, int, int]
"""Section, and where in it a stretch of text begins and ends."""


@dataclass
class OneByOne:
    """The numbers of sequences that are other functions', and the code that nobody is known to have."""

    of_others: set[int] = field(default_factory=set)
    doubted: list[Span] = field(default_factory=list)


@dataclass(frozen=True)
class _Owner:
    """A function that begins where a sequence does: where its code ends, and its number."""

    end: int
    function: int


@dataclass(frozen=True)
class _Object:
    """What is known of an object. ``rows`` are those of each sequence with its end, ``owners`` functions by where they begin and by line
    table, ``code`` where the code of a table's units begins, ``inlined`` the ranges of inlined calls."""

    rows: list[list[Row]]
    table: list[int]
    owners: dict[tuple[int, int], _Owner]
    code: set[tuple[int, int]]
    inlined: list[tuple[int, int]]
    functions: FunctionLines

    def place(self, sequence: int) -> tuple[int, int]:
        return self.rows[sequence][0][0], self.table[sequence]

    def fits(self, sequence: int, ends: Sequence[int]) -> bool:
        """Whether the first row outside of inlined calls has a line that the owner can have."""
        owner = self.owners.get(self.place(sequence))
        if owner is None or owner.function == NO_FUNCTION:
            return False
        for address, file, line, _ in self.rows[sequence]:
            if line and address < owner.end and not any(start <= address < end for start, end in self.inlined):
                own = int(self.functions.file[owner.function])
                return own in (0, file) and int(self.functions.first[owner.function]) <= line < ends[owner.function]
        return False


def judged(
    ranges: DieRanges,
    lines: LineColumns,
    scopes: ScopeColumns,
    units: Units,
    functions: FunctionLines,
    layout: LinearLayout,
) -> OneByOne:
    """The same arguments as those of ``find_folded``, but for the code ranges of units in the place of the debug data."""
    found = OneByOne()
    one = _object(ranges, lines, scopes, units, functions)
    ends = functions.end.tolist()
    nearest = [min(pair) for pair in zip(ends, lines_to_the_next(scopes.functions).tolist(), strict=True)]
    for start, sequences in _shared(one.rows).items():
        (section,), (offset,), (is_text,) = (
            column.tolist() for column in section_of(layout, np.array([start], np.uint64))
        )
        if not is_text:
            continue
        left = _preferred(sequences, lambda each: one.place(each) in one.owners)
        left = _preferred(left, lambda each: one.place(each) in one.code)
        left = _preferred(left, lambda each: one.fits(each, ends))
        left = _preferred(left, lambda each: one.fits(each, nearest))
        found.of_others.update(set(sequences) - set(left))
        if any(one.rows[each] != one.rows[left[0]] for each in left):
            found.doubted.append((section, offset, offset + max(one.rows[each][-1][0] for each in left) - start))
    return found


def _preferred(left: list[int], is_told: Callable[[int], bool]) -> list[int]:
    return [each for each in left if is_told(each)] or left


def _shared(rows: list[list[Row]]) -> dict[int, list[int]]:
    """The sequences at each place at which several begin that have code, in the order of places."""
    places: dict[int, list[int]] = {}
    for number, own in enumerate(rows):
        if own[-1][0] > own[0][0]:
            places.setdefault(own[0][0], []).append(number)
    return {start: places[start] for start in sorted(places) if len(places[start]) > 1}


def _object(
    ranges: DieRanges, lines: LineColumns, scopes: ScopeColumns, units: Units, functions: FunctionLines
) -> _Object:
    every = list(
        zip(*(column.tolist() for column in (lines.address, lines.file, lines.line, lines.column)), strict=True)
    )
    numbers = {offset: number for number, offset in enumerate(lines.tables)}
    table = {
        unit.number: numbers[unit.stmt_list]
        for unit in units.units
        if unit.stmt_list is not None and unit.stmt_list in numbers
    }
    one = _Object(
        [every[first:end] for first, end in zip(lines.first.tolist(), lines.ends.tolist(), strict=True)],
        lines.table.tolist(),
        {},
        set(),
        [],
        functions,
    )
    parent, unit, function = (column.tolist() for column in (scopes.parent, scopes.unit, scopes.function))
    columns = (scopes.range_scope, scopes.range_start, scopes.range_end)
    for scope, start, end in zip(*(column.tolist() for column in columns), strict=True):
        if parent[scope] != NO_PARENT:
            one.inlined.append((start, end))
        elif unit[scope] in table:
            one.owners.setdefault((start, table[unit[scope]]), _Owner(end, function[scope]))
    for which, start in zip(ranges.which.tolist(), ranges.start.tolist(), strict=True):
        number = units.units[which].number
        one.code.update({(start, table[number])} if number in table else ())
    return one
