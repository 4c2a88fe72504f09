"""What an index file does not spell out because it follows from what it does: the location of each range, the frames of
each location, line rows and functions. Worked out for the ranges that are asked for, or for all."""

from __future__ import annotations

from functools import cached_property
from itertools import starmap

import numpy as np

from symd.errors import DataLoss
from symd.index.format import Column
from symd.index.packing import RangePages, RankBitmap, unpack_table
from symd.index.schema import Columns, FunctionTable, LocationTable, RowTable
from symd.model.answers import Reason
from symd.model.columns import I64, U64
from symd.model.debug_info import BODY
from symd.model.reasons import KNOWN

RESERVED = max(KNOWN) + 1
"""Locations 1 to 14 carry a reason alone, under its own number; after them stands one for each call that was inlined,
then one for each range."""
NO_DEBUG_DATA = (Reason.NO_DEBUG_INFO, Reason.MALFORMED)
"""Why code of nobody has no debug information: there its kernel's name is the function's."""
_IS_NO_DEBUG_DATA = np.isin(np.arange(256), NO_DEBUG_DATA)
_CONTRADICTION = "has starts and ranges that contradict each other"


class DerivedColumns:
    """What follows from ``columns``, each when it is first asked for, and then kept."""

    def __init__(self, columns: Columns, *, as_written: bool = False) -> None:
        self._columns, self._as_written = columns, as_written

    @cached_property
    def starts(self) -> RankBitmap:
        """Where ranges start."""
        return RankBitmap(self._columns)

    @cached_property
    def ranges(self) -> RangePages:
        """Frame, line, column and reason of each range."""
        if self.starts.count != self._columns.range_count.item(0):  # which few bytes may state as any number
            raise DataLoss(_CONTRADICTION, where="index file")
        return RangePages(self._columns, as_written=self._as_written)

    def check(self) -> None:
        """Raises DataLoss where starts contradict each other, or are not as many as ranges."""
        self.starts.check()
        if self.starts.count != len(self.ranges):
            raise DataLoss(_CONTRADICTION, where="index file")

    @cached_property
    def has_bodies(self) -> bool:
        """Whether the bodies of kernels are owners that are reported as the kernels; never as written."""
        return not self._as_written and bool((self._columns.owner_inlined == BODY).any())

    @cached_property
    def calls(self) -> I64:
        """The owners that are inlined calls; each has a location of its own, where it was called from."""
        inlined, parent = self._columns.owner_inlined, self._columns.owner_parent
        return np.flatnonzero((inlined != 0) & (parent != 0) & (not self.has_bodies or inlined != BODY))

    @cached_property
    def around(self) -> Column:
        """The owner around each."""
        return self._reported_owner(self._columns.owner_parent)

    def _reported_owner(self, owner: Column) -> Column:
        """The owners that frames name: kernels in place of their own bodies, unless as written."""
        if not self.has_bodies:
            return owner
        return np.where(self._columns.owner_inlined[owner] == BODY, self._columns.owner_parent[owner], owner)

    @cached_property
    def first_range(self) -> int:
        """The location of the first range; those of the others follow."""
        return RESERVED + len(self.calls)

    @cached_property
    def locations(self) -> LocationTable:
        """Every location."""
        return self.locations_of(np.arange(len(self.ranges)), self.calls)

    def locations_of(self, ranges: I64, calls: I64) -> LocationTable:
        """The reserved locations, one for each of ``calls`` (owners, in order; with everything that encloses them), one
        for each of ``ranges``."""
        columns, pages = self._columns, self.ranges
        call_number = np.zeros(len(columns.owner_name), np.uint32)
        call_number[calls] = RESERVED + np.arange(len(calls), dtype=np.uint32)
        around = self.around[calls]
        frame = pages.frame(ranges)
        owner = self._reported_owner(columns.frame_owner[frame])
        reason, kernel = pages.reason(ranges), columns.frame_kernel[frame]
        function = columns.owner_name[owner]
        unknown = (owner == 0) & _IS_NO_DEBUG_DATA[reason]
        if np.any(unknown):
            function = np.where(unknown, kernel, function)
        line = pages.line(ranges)
        exact, nothing = np.full(len(calls), Reason.EXACT, np.uint8), np.zeros(len(calls), np.uint8)
        of_calls_and_ranges = (
            (exact, reason),
            (nothing, kernel),
            (columns.owner_name[around], function),
            (columns.owner_linkage_name[around], columns.owner_linkage_name[owner]),
            (columns.owner_file[calls], columns.frame_file[frame]),
            (columns.owner_line[calls], line),
            (columns.owner_column[calls], pages.column(ranges)),
            (columns.owner_inlined[around] != 0, columns.owner_inlined[owner] != 0),
            (call_number[around], call_number[owner]),
            (columns.owner_start_line[around], columns.owner_start_line[owner]),
            (around, owner),
        )
        table = LocationTable(*starmap(_after_reserved, of_calls_and_ranges))
        table.reason[:RESERVED] = np.arange(RESERVED)
        return table

    def calls_around(self, ranges: I64) -> I64:
        """The inlined calls that enclose the code of ``ranges``, in the order of owners."""
        parent = self.around
        used = np.zeros(len(parent), np.bool_)
        is_call = np.zeros(len(parent), np.bool_)
        is_call[self.calls] = True
        owner = self._reported_owner(self._columns.frame_owner[self.ranges.frame(ranges)])
        while len(owner):
            owner = owner[is_call[owner] & ~used[owner]]
            used[owner] = True
            owner = parent[owner]
        return np.flatnonzero(used)

    def owners_between(self, start: int, stop: int) -> tuple[U64, Column]:
        """Cut the text positions from ``start`` to ``stop``, of which there is one at least, where ranges begin: (the
        first position of each piece, the owner of each)."""
        begins = np.concatenate([np.array([start], np.uint64), self.starts.behind(start, stop)])
        first = int(self.starts.find(begins[:1])[0])
        ranges = np.arange(first, first + len(begins))
        return begins, self._reported_owner(self._columns.frame_owner[self.ranges.frame(ranges)])

    def owners_around(self, owner: int) -> list[int]:
        """An owner, and those that it is inlined into, from the inside out."""
        found = [owner]
        while self._columns.owner_inlined.item(found[-1]) and (around := self.around[found[-1]].item()):
            found.append(around)
        return found

    def runs_of(self, owner: int) -> U64:
        """The text positions at which code of an inlined call begins, that of what is inlined into it included, and
        the code before is not its own."""
        owners, begins = self._runs
        first, last = np.searchsorted(owners, [owner, owner + 1])
        return begins[first:last]

    @cached_property
    def _runs(self) -> tuple[I64, U64]:
        """(owners, growing, where runs of their code begin, growing for each): those that have the code of a range, and
        not of the range before it."""
        after = self._reported_owner(self._columns.frame_owner[self.ranges.frame(np.arange(len(self.ranges)))])
        after = after.astype(np.int64)
        before = np.append(np.zeros(1, np.int64), after[:-1])
        at, around = np.arange(len(after)), self.around.astype(np.int64)
        owners, numbers = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        while len(at):  # what is around an owner comes before it
            inner = after > before
            owners.append(after[inner])
            numbers.append(at[inner])
            outer = before > after
            after, before = np.where(inner, around[after], after), np.where(outer, around[before], before)
            differ = after != before
            at, after, before = at[differ], after[differ], before[differ]
        owner, number = np.concatenate(owners), np.concatenate(numbers)
        order = np.lexsort((number, owner))
        return owner[order], self.starts.all()[number[order]]

    @cached_property
    def rows(self) -> RowTable:
        """Line rows. Raises DataLoss."""
        columns = self._columns
        count = int(columns.object_rows.sum(dtype=np.uint64))
        table = RowTable(*unpack_table(columns.row_data, count, len(RowTable._fields)))
        _check_numbers(len(columns.section_object), table.section)
        _check_numbers(len(columns.string_ends), table.file)
        _check_numbers(1 << 32, table.line, table.column)
        _check_numbers(1 << 8, table.flags)
        return table

    @cached_property
    def functions(self) -> FunctionTable:
        """Functions. Raises DataLoss."""
        columns = self._columns
        count = int(columns.function_count.item(0))
        table = FunctionTable(*unpack_table(columns.function_data, count, len(FunctionTable._fields)))
        _check_numbers(len(columns.object_path), table.object)
        _check_numbers(len(columns.string_ends), table.name, table.linkage_name)
        _check_numbers(len(columns.owner_name), table.owner, table.symbol)
        _check_numbers(len(columns.section_object) + 1, table.section)
        return table


def _check_numbers(count: int, *columns: Column) -> None:
    """Raises DataLoss for a number of a thing of which there are only ``count``."""
    if any(len(column) and int(column.max()) >= count for column in columns):
        raise DataLoss("has a table that numbers what is not there", where="index file")


def _after_reserved(of_calls: Column, of_ranges: Column) -> Column:
    return np.concatenate([np.zeros(RESERVED, np.uint8), of_calls, of_ranges])
