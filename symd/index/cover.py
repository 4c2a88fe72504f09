"""Which range holds each point, for many points at once: the one geometric question behind rows, scopes and functions."""

from __future__ import annotations

from bisect import bisect_right, insort

import numpy as np
from numpy.typing import NDArray

from symd.index.starts import alignment
from symd.model import NO_PARENT, U32, U64

Numbers = NDArray[np.int64]
_MAX_LEVELS = 64
_SPARSE = 16
"""Where there are so many slots to a boundary, boundaries are sorted instead of ticked off."""


class Points:
    """Distinct positions in order, and quick to find: the boundaries at which something changes."""

    def __init__(self, *positions: U64) -> None:
        given = np.concatenate(positions)
        self._shift = np.uint64(alignment(given))
        slots = (int(given.max(initial=0)) >> int(self._shift)) + 1
        self._table: NDArray[np.int32] | None = None
        if slots > _SPARSE * len(given) + 1024:
            self.values: U64 = np.unique(given)
            return
        flags = np.zeros(slots, np.bool_)
        flags[given >> self._shift] = True
        self._table = np.cumsum(flags, dtype=np.int32)
        self.values = np.flatnonzero(flags).astype(np.uint64) << self._shift

    def __len__(self) -> int:
        return len(self.values)

    def number(self, positions: U64) -> Numbers:
        """The numbers of ``positions``, each of which must be one of the points."""
        if self._table is None:
            return np.searchsorted(self.values, positions)
        found: Numbers = self._table[positions >> self._shift].astype(np.int64) - 1
        return found

    def spread(self, others: Points, found: Numbers) -> Numbers:
        """``found``, which holds from each of ``others`` to the next, for every point here; -1 before the first."""
        if not len(others):
            return np.full(len(self), -1)
        lengths = np.diff(self.number(others.values), append=len(self))
        lead = len(self) - int(lengths.sum())
        return np.concatenate([np.full(lead, -1), np.repeat(found, lengths)])


def last_cover(starts: U64, ends: U64, points: Points) -> Numbers:
    """For each of ``points`` the number of the last range ``[start, end)`` that holds it, or -1. The points must
    include every start and end of a range that is not empty.

    Disjoint ranges are marked where they begin and end; overlapping ones are painted in their order, so that the last
    wins.
    """
    live = np.flatnonzero(starts < ends)
    first, last = starts[live], ends[live]
    if np.any(last[:-1] > first[1:]):
        order = np.argsort(first, kind="stable")
        if np.any(last[order][:-1] > first[order][1:]):
            return _painted(live, points.number(first), points.number(last), len(points))
        live, first, last = live[order], first[order], last[order]
    return _marked(live, points.number(first), points.number(last), len(points))


def _marked(values: Numbers, begin: Numbers, stop: Numbers, size: int) -> Numbers:
    """``values`` between their marks, -1 elsewhere. The spans are disjoint and in order."""
    if not len(values):
        return np.full(size, -1)
    edges = np.stack([begin, stop], axis=1).ravel()
    held = np.stack([values, np.full(len(values), -1)], axis=1).ravel()
    lead = np.full(int(edges[0]), -1)
    return np.concatenate([lead, np.repeat(held, np.diff(edges, append=size))])


def _painted(values: Numbers, begin: Numbers, stop: Numbers, size: int) -> Numbers:
    result = np.full(size, -1)
    for value, first, last in zip(values.tolist(), begin.tolist(), stop.tolist(), strict=True):
        result[first:last] = value
    return result


def innermost(scope: U32, starts: U64, ends: U64, parent: U32, points: Points) -> Numbers:
    """For each of ``points`` the innermost scope, or -1. Ranges are given as (scope, start, end) columns; the points
    must include every start and end.

    Where ranges nest as their scopes do, each level of nesting is marked in one step. Where a compiler wrote ranges
    that overlap otherwise they contradict each other, and ``_contradicting`` decides as LLVM does.
    """
    order = np.argsort(scope, kind="stable") if np.any(scope[:-1] > scope[1:]) else np.arange(len(scope))
    owner, starts, ends = scope[order].astype(np.int64), starts[order], ends[order]
    levels = _levels(owner, starts, ends, parent, points)
    return _contradicting(owner, starts, ends, points.values) if levels is None else levels


def _contradicting(scope: Numbers, starts: U64, ends: U64, points: U64) -> Numbers:
    """Ranges entered in the order of the tree into one map from start to (end, scope). One that begins inside another
    cuts it in two; one that reaches over the start of another keeps only what comes before: the rest of it, behind
    the other, belongs to nobody."""
    keys: list[int] = []
    held: dict[int, tuple[int, int]] = {}

    def enter(start: int, end: int, owner: int) -> None:
        if start not in held:
            insort(keys, start)
        held[start] = (end, owner)

    for owner, start, end in zip(scope.tolist(), starts.tolist(), ends.tolist(), strict=True):
        if start >= end:
            continue
        before = bisect_right(keys, start) - 1
        if before >= 0 and start < held[keys[before]][0]:
            around = keys[before]
            around_end, around_owner = held[around]
            if end < around_end:
                enter(end, around_end, around_owner)
            if start > around:
                held[around] = (start, around_owner)
        enter(start, end, owner)
    table = np.array([(start, *held[start]) for start in keys], np.uint64).reshape(-1, 3)
    slot = np.searchsorted(table[:, 0], points, side="right") - 1
    inside = (slot >= 0) & (points < table[slot, 1])
    return np.where(inside, table[slot, 2].astype(np.int64), -1)


def _levels(scope: Numbers, starts: U64, ends: U64, parent: U32, points: Points) -> Numbers | None:
    result = np.full(len(points), -1)
    depth = _depths(parent)
    if depth is None:
        return None
    live = np.flatnonzero(starts < ends)
    scope, begin, stop = scope[live], points.number(starts[live]), points.number(ends[live])
    range_depth = depth[scope]
    for level in range(int(depth.max(initial=-1)) + 1):
        chosen = np.flatnonzero(range_depth == level)
        if np.any(begin[chosen[:-1]] > begin[chosen[1:]]):
            chosen = chosen[np.argsort(begin[chosen], kind="stable")]
        first, last, owner = begin[chosen], stop[chosen], scope[chosen]
        if np.any(last[:-1] > first[1:]):
            return None
        if level and not _nested(result, first, last, parent[owner]):
            return None
        found = _marked(owner, first, last, len(points))
        result = np.where(found >= 0, found, result)
    return result


def _nested(above: Numbers, first: Numbers, last: Numbers, parent: U32) -> bool:
    """Whether each range begins and ends inside a range of its parent, given the innermost scopes so far."""
    return bool(np.all(above[first] == parent) and np.all(above[last - 1] == parent))


def _depths(parent: U32) -> Numbers | None:
    """Nesting depth of each scope (0: no parent); None when it is deeper than a level each is worth."""
    depth = np.zeros(len(parent), np.int64)
    at = parent.astype(np.int64)
    for _ in range(_MAX_LEVELS):
        inner = np.flatnonzero(at != NO_PARENT)
        if not len(inner):
            return depth
        depth[inner] += 1
        at[inner] = parent[at[inner]]
    return None
