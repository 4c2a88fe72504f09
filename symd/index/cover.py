"""Which range holds each point, for many points at once: the one geometric question behind rows, scopes and functions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from symd.index.distinct import runs
from symd.index.format import Column
from symd.index.starts import alignment
from symd.model.columns import I64
from symd.model.debug_info import NO_PARENT

_MAX_LEVELS = 64
_SLOTS_A_BOUNDARY = 16
"""Where there are so many slots to a boundary, boundaries are sorted instead of ticked off."""


class Points:
    """Distinct positions in order, and quick to find: the boundaries at which something changes."""

    def __init__(self, *positions: Column) -> None:
        top = max((int(column.max(initial=0)) for column in positions), default=0)
        self._shift = min((alignment(column) for column in positions if column.any()), default=0)
        self._size = (top >> self._shift) + 1
        self._slots: Column | None = None
        self._table: Column | None = None
        if self._size > _SLOTS_A_BOUNDARY * sum(map(len, positions)) + 1024:
            ordered = np.sort(np.concatenate(positions))
            self.values: Column = ordered[runs(ordered)]
            return
        self._slots = np.flatnonzero(self._flags(*positions))
        self.values = self._slots.astype(positions[0].dtype) << self._shift

    def _flags(self, *positions: Column) -> NDArray[np.bool_]:
        flags = np.zeros(self._size, np.bool_)
        for column in positions:
            flags[column >> self._shift] = True
        return flags

    def __len__(self) -> int:
        return len(self.values)

    def number(self, positions: Column) -> I64:
        """The numbers of ``positions``, each of which must be one of the points."""
        if self._slots is None:
            return np.searchsorted(self.values, positions)
        if self._table is None:
            self._table = np.empty(self._size, np.int32)
            self._table[self._slots] = np.arange(len(self._slots), dtype=np.int32)
        return np.asarray(self._table[positions >> self._shift], np.int64)

    def among(self, positions: Column) -> NDArray[np.bool_]:
        """For each point whether it is one of ``positions``, which are points."""
        if self._slots is None:
            flags = np.zeros(len(self.values), np.bool_)
            flags[np.searchsorted(self.values, positions)] = True
            return flags
        return self._flags(positions)[self._slots]


def last_cover(starts: Column, ends: Column, points: Points) -> NDArray[np.int32]:
    """For each of ``points`` the number of the last range ``[start, end)`` that holds it, or -1. The points must
    include every start and end of a range that is not empty.

    Of disjoint ranges the last that began holds a point, if it has not ended; overlapping ones are painted in their
    order, so that the last wins.
    """
    live = np.flatnonzero(starts < ends).astype(np.int32)
    if not len(live):
        return np.full(len(points), -1, np.int32)
    first, last = starts[live], ends[live]
    if np.any(last[:-1] > first[1:]):
        order = np.argsort(first, kind="stable")
        first, last = first[order], last[order]
        if np.any(last[:-1] > first[1:]):
            return _painted(live, points.number(starts[live]), points.number(ends[live]), len(points))
        live = live[order]
    begun = np.cumsum(points.among(first), dtype=np.int32)
    begun -= 1
    found = live[begun]
    found[(begun < 0) | (points.values >= last[begun])] = -1
    return found


def spread(starts: Column, ends: Column, own: Points) -> tuple[Column, NDArray[np.int32], I64]:
    """(the points that are starts or of ``own``, for each the last range ``[start, end)`` that holds it or -1, where
    those of ``own`` are among them). Every end must be one of these points; none lies before its start.

    Where ranges are disjoint and in order, as most line tables are, they are the points themselves, and only those of
    ``own`` that are missing are put between them.
    """
    if not len(starts) or np.any(ends[:-1] > starts[1:]):
        points = Points(starts, own.values)
        return points.values, last_cover(starts, ends, points), np.flatnonzero(points.among(own.values))
    last = np.append(starts[1:] != starts[:-1], True)
    found = np.where(starts < ends, np.arange(len(starts), dtype=np.int32), np.int32(-1))[last]
    values = starts[last]
    at = np.searchsorted(values, own.values)
    new = values[np.minimum(at, len(values) - 1)] != own.values
    between, missing = at[new], own.values[new]
    if not len(missing):
        return values, found, at
    before = np.where(between > 0, found[between - 1], -1)
    before[missing >= ends[before]] = -1
    return np.insert(values, between, missing), np.insert(found, between, before), at + np.cumsum(new) - new


def _painted(values: NDArray[np.int32], begin: I64, stop: I64, size: int) -> NDArray[np.int32]:
    result = np.full(size, -1, np.int32)
    for value, first, last in zip(values.tolist(), begin.tolist(), stop.tolist(), strict=True):
        result[first:last] = value
    return result


def smallest_cover(starts: Column, ends: Column, points: Points) -> NDArray[np.int32]:
    """The smallest range around each point; of equals the first."""
    order = np.argsort(ends - starts, kind="stable")[::-1]
    found = last_cover(starts[order], ends[order], points)
    return np.append(order, -1).astype(np.int32)[found]


def innermost(scope: Column, starts: Column, ends: Column, parent: Column, points: Points) -> NDArray[np.int32]:
    """For each of ``points`` the innermost scope, or -1. Ranges are given as (scope, start, end) columns; the points
    must include every start and end.

    Where ranges nest as their scopes do, each level of nesting is marked in one step. Where a compiler wrote ranges
    that overlap otherwise they contradict each other, and ``debuginfo.overlaps`` has the rule.
    """
    live = np.flatnonzero(starts < ends)
    if np.any(scope[live[:-1]] > scope[live[1:]]):
        live = live[np.argsort(scope[live], kind="stable")]
    scope, begin, stop = scope[live].astype(np.int32), points.number(starts[live]), points.number(ends[live])
    result, wrong = _levels(scope, begin, stop, parent, len(points))
    if np.any(wrong):
        again = _together(begin, stop, wrong)
        at = _within(begin[again], stop[again])
        result[at] = _contradicting(scope[again], begin[again], stop[again], len(points))[at]
    return result


def _together(begin: I64, stop: I64, wrong: NDArray[np.bool_]) -> I64:
    """The ranges that overlap a wrong one, or one that does."""
    order = np.argsort(begin, kind="stable")
    reach = np.maximum.accumulate(stop[order])
    heap = np.cumsum(np.append(False, begin[order][1:] >= reach[:-1]))
    taken = np.zeros(int(heap[-1]) + 1, np.bool_)
    taken[heap[wrong[order]]] = True
    return np.sort(order[taken[heap]])


def _contradicting(scope: NDArray[np.int32], begin: I64, stop: I64, size: int) -> NDArray[np.int32]:
    """Ranges of points in the order of the tree, decided by the rule for those that contradict each other."""
    from symd.debuginfo.overlaps import disjoint_pieces  # noqa: PLC0415 - few compilers write such ranges

    result = np.full(size, -1, np.int32)
    for start, end, owner in disjoint_pieces(zip(begin.tolist(), stop.tolist(), scope.tolist(), strict=True)):
        result[start:end] = owner
    return result


def _levels(
    scope: NDArray[np.int32], begin: I64, stop: I64, parent: Column, size: int
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """(level by level, the scopes of each written over those of the last; the ranges that do not nest as scopes do)."""
    result, wrong = np.full(size, -1, np.int32), np.zeros(len(scope), np.bool_)
    depth = _depths(parent)
    if depth is None:
        return result, np.ones(len(scope), np.bool_)
    range_depth = depth[scope]
    for level in range(int(range_depth.max(initial=0)) + 1):
        chosen = np.flatnonzero(range_depth == level)
        first = begin[chosen]
        if np.any(first[:-1] > first[1:]):
            chosen = chosen[np.argsort(first, kind="stable")]
            first = begin[chosen]
        last, owner = stop[chosen], scope[chosen]
        wrong[chosen[:-1]] = last[:-1] > first[1:]
        if level:
            around = parent[owner]
            wrong[chosen] |= (result[first] != around) | (result[last - 1] != around)
        result[_within(first, last)] = np.repeat(owner, last - first)
    return result, wrong


def _within(begin: I64, stop: I64) -> I64:
    """The numbers from each of ``begin`` to its ``stop``, one span after the other."""
    size = stop - begin
    return np.asarray(np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size - begin, size), np.int64)


def _depths(parent: Column) -> Column | None:
    """Nesting depth of each scope (0: no parent); None when it is deeper than a level each is worth."""
    depth = np.zeros(len(parent), np.uint8)
    inner = np.flatnonzero(parent != NO_PARENT)
    at = parent[inner]
    for _ in range(_MAX_LEVELS):
        if not len(inner):
            return depth
        depth[inner] += 1
        at = parent[at]
        left = at != NO_PARENT
        inner, at = inner[left], at[left]
    return None
