"""Which interval of addresses that began last covers this address at that time? One immutable run of intervals, answered
with a few binary searches for a whole batch.

The address line is cut where an interval begins or ends; the cells between are the leaves of a binary tree. An interval
stands at those nodes (at most two a level) whose cells it covers whole, so the intervals over an address stand on its
leaf's way to the root; at each node they are sorted by time. Room is n log n even where all of them overlap."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from symd.model.columns import I64, U64

Flags = NDArray[np.bool_]

SHIFT = np.uint64(32)
"""A key is a node number above so many bits of time rank, so a level is one sorted column."""
LOW = np.uint64((1 << 32) - 1)
ONE = np.uint64(1)
NONE = -1


@dataclass(frozen=True, slots=True)
class Level:
    """The intervals at the nodes of one level: sorted ``keys``, their ``rows``, and whether the entry before has the
    same node and time (``tied``)."""

    depth: int
    keys: U64
    rows: I64
    tied: Flags


@dataclass(frozen=True, slots=True)
class Best:
    """For each question the interval that began last: its row and time (NONE: none), whether another one began at that
    very time, and whether any interval covers the address at any time."""

    row: I64
    time: I64
    tied: Flags
    ever: Flags

    @classmethod
    def nothing(cls, size: int) -> Best:
        return cls(np.full(size, NONE), np.full(size, NONE), np.zeros(size, np.bool_), np.zeros(size, np.bool_))


class Run:
    """Intervals ``[start, last]`` (both inclusive) with the ``time`` at which each begins and the row that names it."""

    def __init__(self, rows: I64, start: U64, last: U64, time: I64) -> None:
        self.rows = rows
        ends = last[last < np.iinfo(np.uint64).max] + ONE
        self._cuts = np.unique(np.concatenate([start, ends]))
        self._times = np.unique(time)
        left = np.searchsorted(self._cuts, start).astype(np.uint64)
        right = np.searchsorted(self._cuts, last, side="right").astype(np.uint64)
        self._covered = _covered(left, right, len(self._cuts))
        self._leaves = np.uint64(1 << max(len(self._cuts) - 1, 0).bit_length())
        rank = np.searchsorted(self._times, time).astype(np.uint64)
        self._levels = tuple(_levels(left + self._leaves, right + self._leaves, rank, rows))

    def __len__(self) -> int:
        return len(self.rows)

    def improve(self, best: Best, address: U64, time: I64) -> None:
        """Put this run's answers into ``best`` where they began later."""
        leaf, inside = self._leaf(address)
        best.ever[:] |= inside & self._covered[leaf]
        rank = np.searchsorted(self._times, time, side="right") - 1
        known = inside & (rank >= 0)
        low = np.where(known, rank, 0).astype(np.uint64)
        node = leaf.astype(np.uint64) + self._leaves
        for level in self._levels:
            at = node >> np.uint64(level.depth)
            slot = np.searchsorted(level.keys, at << SHIFT | low, side="right") - 1
            key = level.keys[slot]
            hit = known & (slot >= 0) & (key >> SHIFT == at)
            began = np.where(hit, self._times[np.where(hit, key & LOW, 0).astype(np.int64)], NONE)
            better = began > best.time
            best.tied[:] = np.where(better, level.tied[slot], best.tied | (hit & (began == best.time)))
            best.row[better] = level.rows[slot[better]]
            best.time[better] = began[better]

    def beginning_at(self, address: U64, time: I64, most: int) -> Iterator[tuple[I64, I64, I64]]:
        """All intervals over each address that begin exactly at its time, at most ``most`` a node: two columns (number
        of the question, row), and the numbers of questions for which there are more."""
        leaf, inside = self._leaf(address)
        rank = np.minimum(np.searchsorted(self._times, time), len(self._times) - 1)
        asked = np.flatnonzero(inside & (self._times[rank] == time))
        low, node = rank[asked].astype(np.uint64), leaf[asked].astype(np.uint64) + self._leaves
        for level in self._levels:
            key = node >> np.uint64(level.depth) << SHIFT | low
            first = np.searchsorted(level.keys, key)
            count = np.searchsorted(level.keys, key, side="right") - first
            crowded = asked[count > most]
            count = np.minimum(count, most)
            number = np.repeat(asked, count)
            within = np.arange(len(number)) - np.repeat(np.cumsum(count) - count, count)
            yield number, level.rows[np.repeat(first, count) + within], crowded

    def _leaf(self, address: U64) -> tuple[I64, Flags]:
        leaf = np.searchsorted(self._cuts, address, side="right") - 1
        return np.maximum(leaf, 0), leaf >= 0


def _covered(left: U64, right: U64, cells: int) -> Flags:
    """For each cell, whether any interval covers it."""
    change = np.bincount(left.astype(np.int64), minlength=cells + 1)
    change -= np.bincount(right.astype(np.int64), minlength=cells + 1)
    return (np.cumsum(change) > 0)[:cells]


def _levels(left: U64, right: U64, rank: U64, rows: I64) -> Iterator[Level]:
    """Climb from the leaves: where the left end is a right child it is a node of its own, and so at the right end."""
    depth = 0
    while len(rows):
        odd_left, odd_right = (left & ONE) == ONE, (right & ONE) == ONE
        nodes = np.concatenate([left[odd_left], right[odd_right] - ONE])
        if len(nodes):
            ranks = np.concatenate([rank[odd_left], rank[odd_right]])
            yield _level(depth, nodes << SHIFT | ranks, np.concatenate([rows[odd_left], rows[odd_right]]))
        left, right = (left + odd_left) >> ONE, right >> ONE
        going = left < right
        left, right, rank, rows = left[going], right[going], rank[going], rows[going]
        depth += 1


def _level(depth: int, keys: U64, rows: I64) -> Level:
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    tied = np.zeros(len(keys), np.bool_)
    tied[1:] = keys[1:] == keys[:-1]
    return Level(depth, keys, rows[order], tied)
