"""Which range holds each point of a text, in NumPy's columns: the one geometric question behind rows, scopes and
functions. ``core.sweep`` answers it.

Points are distinct text positions (u64) in order: the boundaries at which something changes, among them the starts and
ends of all ranges.

Rows are ended here, too. A line sequence may go on after the end of its function, over padding that belongs to no
function, so a row that begins in a function ends at the latest where the function's symbol ends. Line tables without
units are NVIDIA's: there a row says nothing of a function that begins later. The assembler puts its own functions
(division, square root), without rows, behind a kernel and within its symbol.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from symd.core import sweep
from symd.debuginfo.text_ranges import disjoint_pieces
from symd.index.format import Column
from symd.index.module_tables import ModuleTables, NamedRanges, ScopeRanges
from symd.model.columns import I64, U64, runs


def view(column: NDArray[Any], dtype: DTypeLike) -> memoryview[Any]:
    """A column as the core takes it: of one type, and its entries side by side."""
    if column.dtype == np.bool_ and dtype is np.uint8:
        column = column.view(np.uint8)
    return np.ascontiguousarray(column, dtype).data


def points_of(*positions: Column) -> U64:
    """Distinct positions in order."""
    ordered = np.concatenate(positions, dtype=np.uint64, casting="same_kind")
    ordered.sort()
    return ordered[runs(ordered)]


def smallest_cover(starts: Column, ends: Column, points: U64) -> NDArray[np.int32]:
    """For each of ``points`` the number of the smallest range [start, end) around it, or -1; of equals the first."""
    rank = np.empty(len(starts), np.uint32)
    rank[np.argsort(ends - starts, kind="stable")[::-1]] = np.arange(len(starts), dtype=np.uint32)
    order = np.argsort(starts, kind="stable")
    found = sweep.covers(
        view(points, np.uint64),
        view(order, np.int64),
        view(starts, np.uint64),
        view(ends, np.uint64),
        view(rank, np.uint32),
    )
    return np.frombuffer(found, np.int32)


def pieces(starts: Column, ends: Column, points: U64) -> tuple[Column, NDArray[np.int32], I64]:
    """(the positions at which a row [start, end) or one of ``points`` begins, for each the last row that holds it or
    -1, where ``points`` are among them). Every end is a start or a point."""
    order = np.argsort(starts, kind="stable") if np.any(starts[:-1] > starts[1:]) else None
    most = len(starts) + len(points)
    position, row, begin = np.empty(most, np.uint64), np.empty(most, np.int32), np.empty(len(points), np.int64)
    count = sweep.pieces(
        view(starts, np.uint64),
        view(ends, np.uint64),
        None if order is None else view(order, np.int64),
        view(points, np.uint64),
        (position.data, row.data, begin.data),
    )
    return position[:count].astype(starts.dtype), row[:count], begin


def innermost(scope: Column, starts: Column, ends: Column, parent: Column, points: U64) -> NDArray[np.int32]:
    """For each of ``points`` the innermost scope, or -1. Ranges are given as (scope, start, end) columns.

    Where a compiler wrote ranges that overlap otherwise than their scopes nest they contradict each other, and
    ``debuginfo.text_ranges`` has the rule.
    """
    live = np.flatnonzero(starts < ends)
    if np.any(scope[live[:-1]] > scope[live[1:]]):
        live = live[np.argsort(scope[live], kind="stable")]
    begin, stop = (
        np.frombuffer(sweep.point_numbers(view(points, np.uint64), view(each[live], np.uint64)), np.int32)
        for each in (starts, ends)
    )
    order, scope = np.argsort(begin, kind="stable"), np.ascontiguousarray(scope[live], np.uint32)
    found, wrong, has_wrong = sweep.innermost(
        len(points),
        view(order, np.int64),
        view(begin, np.int32),
        view(stop, np.int32),
        view(scope, np.uint32),
        view(parent, np.uint32),
    )
    result = np.frombuffer(found, np.int32)
    if has_wrong:
        again = _together(begin, stop, order, np.frombuffer(wrong, np.bool_))
        _decide(result, scope[again], begin[again], stop[again])
    return result


def _together(
    begin: NDArray[np.int32], stop: NDArray[np.int32], order: I64, wrong: NDArray[np.bool_]
) -> NDArray[np.intp]:
    """The ranges that overlap a wrong one, or one that does."""
    reach = np.maximum.accumulate(stop[order])
    heap = np.cumsum(np.append(False, begin[order][1:] >= reach[:-1]))
    taken = np.zeros(int(heap[-1]) + 1, np.bool_)
    taken[heap[wrong[order]]] = True
    return np.sort(order[taken[heap]])


def _decide(result: NDArray[np.int32], scope: Column, begin: Column, stop: Column) -> None:
    """Write whose the points of ranges are that overlap, in the order of the tree, by the rule for those that
    contradict each other."""
    steps = np.zeros(len(result) + 1, np.int64)
    np.add.at(steps, begin, 1)
    np.subtract.at(steps, stop, 1)
    result[np.cumsum(steps[:-1]) > 0] = -1
    for first, last, owner in disjoint_pieces(zip(begin.tolist(), stop.tolist(), scope.tolist(), strict=True)):
        result[first:last] = owner


def within_functions(start: Column, stop: Column, module: ModuleTables) -> tuple[Column, Column]:
    """The rows' text positions [start, stop). A row that goes on after the end of the function symbol in which it
    begins is cut there, provided that no symbol and no scope has any code in the part cut off."""
    if not len(module.symbols.start) or not len(start):
        return start, stop
    symbols, scopes = _Cover(module.symbols), _Cover(module.ranges)
    if module.line_tables_alone.any():
        stop = _up_to_next_symbol(start, stop, module)
    end = symbols.end_at(start)
    over = end < stop
    over &= end > start
    at = np.flatnonzero(over)
    unclaimed = [cover.leaves_free(end[at], stop[at]) for cover in (symbols, scopes)]
    at = at[unclaimed[0] & unclaimed[1]]
    cut = stop.copy()
    cut[at] = end[at]
    return start, cut


def _up_to_next_symbol(start: Column, stop: Column, module: ModuleTables) -> Column:
    """Where rows end that would reach over a function symbol which begins after them in an object with
    ``line_tables_alone``; the scopes of such an object end there too (``debuginfo.row_scopes``)."""
    begins = np.sort(module.symbols.start[module.line_tables_alone[module.symbols.object]])
    at = np.searchsorted(begins, start, side="right")
    following = np.append(begins, begins.dtype.type(0))[at]
    cut: Column = np.where((at < len(begins)) & (following < stop), following, stop)
    return cut


class _Cover:
    """Ranges by their beginning, and how far those up to each one reach."""

    def __init__(self, ranges: NamedRanges | ScopeRanges) -> None:
        order = np.argsort(ranges.start, kind="stable")
        self.first = ranges.start[order]
        self.reach = np.append(ranges.stop.dtype.type(0), np.maximum.accumulate(ranges.stop[order]))

    def end_at(self, position: Column) -> Column:
        """The farthest end of the ranges that begin up to there; it is before the position where none holds it."""
        if (position[1:] < position[:-1]).any():
            found: Column = self.reach[np.searchsorted(self.first, position, side="right")]
            return found
        begun = np.searchsorted(position, self.first.astype(position.dtype))  # fewer to look for
        return np.repeat(self.reach, np.diff(begun, prepend=0, append=len(position)))

    def leaves_free(self, start: Column, stop: Column) -> Column:
        """Whether no range holds anything of [start, stop)."""
        before = np.searchsorted(self.first, stop, side="left")
        free: Column = self.reach[before] <= start
        return free
