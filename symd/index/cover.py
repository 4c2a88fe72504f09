"""Which range holds each point, for many points at once: the one geometric question behind rows, scopes and functions."""

from __future__ import annotations

from bisect import bisect_right, insort

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
    overlap otherwise they contradict each other, and ``_contradicting`` decides as LLVM does.
    """
    order = np.argsort(scope, kind="stable")
    owner, starts, ends = scope[order].astype(np.int64), starts[order], ends[order]
    levels = _levels(owner, starts, ends, parent, points)
    return _contradicting(owner, starts, ends, points) if levels is None else levels


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
