"""Which range holds each point, for many points at once: the one geometric question behind rows, scopes and functions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from symd.model import NO_PARENT, U32, U64

Numbers = NDArray[np.int64]
_MAX_LEVELS = 64


def last_cover(starts: U64, ends: U64, points: U64) -> Numbers:
    """For each of the sorted ``points`` the number of the last range ``[start, end)`` that holds it, or -1.

    Disjoint ranges take one search; overlapping ones are painted in their order, so that the last wins.
    """
    live = np.flatnonzero(starts < ends)
    order = live[np.argsort(starts[live], kind="stable")]
    first, last = starts[order], ends[order]
    if np.all(last[:-1] <= first[1:]):
        return _disjoint(order, first, last, points)
    return _painted(live, starts, ends, points)


def _disjoint(order: Numbers, first: U64, last: U64, points: U64) -> Numbers:
    if not len(order):
        return np.full(len(points), -1)
    slot = np.searchsorted(first, points, side="right") - 1
    held = (slot >= 0) & (points < last[slot])
    return np.where(held, order[slot], -1)


def _painted(live: Numbers, starts: U64, ends: U64, points: U64) -> Numbers:
    result = np.full(len(points), -1)
    begin = np.searchsorted(points, starts[live]).tolist()
    stop = np.searchsorted(points, ends[live]).tolist()
    for number, first, last in zip(live.tolist(), begin, stop, strict=True):
        result[first:last] = number
    return result


def innermost(scope: U32, starts: U64, ends: U64, parent: U32, points: U64) -> Numbers:
    """For each of the sorted ``points`` the innermost scope, or -1. Ranges are given as (scope, start, end) columns.

    Where ranges nest as their scopes do, each level of nesting takes one search. Where a compiler wrote ranges that
    overlap otherwise, they are painted in scope order, parents before children: the later scope wins, as it does in
    other readers.
    """
    order = np.argsort(scope, kind="stable")
    scope, starts, ends = scope[order].astype(np.int64), starts[order], ends[order]
    levels = _levels(scope, starts, ends, parent, points)
    if levels is None:
        found = _painted(np.flatnonzero(starts < ends), starts, ends, points)
        return np.where(found >= 0, scope[found], -1)
    return levels


def _levels(scope: Numbers, starts: U64, ends: U64, parent: U32, points: U64) -> Numbers | None:
    result = np.full(len(points), -1)
    depth = _depths(parent)
    if depth is None:
        return None
    range_depth = depth[scope]
    for level in range(int(depth.max(initial=-1)) + 1):
        chosen = np.flatnonzero((range_depth == level) & (starts < ends))
        chosen = chosen[np.argsort(starts[chosen], kind="stable")]
        first, last, owner = starts[chosen], ends[chosen], scope[chosen]
        if np.any(last[:-1] > first[1:]):
            return None
        if level and not _nested(result, points, first, last, parent[owner]):
            return None
        found = _disjoint(np.arange(len(chosen)), first, last, points)
        result = np.where(found >= 0, owner[found] if len(owner) else -1, result)
    return result


def _nested(above: Numbers, points: U64, first: U64, last: U64, parent: U32) -> bool:
    """Whether each range begins and ends inside a range of its parent, given the innermost scopes so far."""
    begin = np.searchsorted(points, first)
    end = np.searchsorted(points, last) - 1
    return bool(np.all(above[begin] == parent) and np.all(above[end] == parent))


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
