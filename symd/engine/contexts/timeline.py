"""The map of one context: which module was where, when. A device address is looked up as of a time.

The load at an address and a time is the one over that address that began last, at that time or before. If it was
unloaded by then there is none: what an earlier load had there is gone, because the memory was given to a later one. The
order in which events arrive does not matter. Loads that began at the very same time and still live are ambiguous.

An immutable run of intervals answers a batch with a few binary searches. The address line is cut where an interval
begins or ends; the cells between are the leaves of a binary tree. An interval is at those nodes (at most two a
level) whose cells it covers whole, so the intervals over an address are on the way from its leaf to the root; at each
node they are sorted by time. Room is n log n even where all of them overlap.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from sys import getsizeof
from typing import Any

import numpy as np
from numpy.typing import NDArray

from symd.core.sorting import upper_bounds
from symd.model.addresses import LATEST_TIME
from symd.model.answers import Reason
from symd.model.cancellation import check_cancelled
from symd.model.columns import I64, U8, U64
from symd.model.contexts import Origin
from symd.query.symbolize import MAX_EXPLAINED, MAX_NAMED

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


FOREVER = LATEST_TIME + 1
"""The end of a load that was not unloaded; every time is below it."""
MAX_TIED = 64
"""The most loads of one time that are told apart at one node, and named as candidates of one answer."""
TIED_BATCH = 1 << 10
"""Questions with such an answer that are looked at together: each takes ``MAX_TIED`` rows for every level of a run."""
QUESTIONS_ONE_BY_ONE = 1 << 12
"""Up to this many questions are answered one by one: to tell which are the same takes as long."""
DENSE = 4
"""Up to so many cells a question are numbered without sorting."""
STEPS = 1 << 16
"""Questions answered together: what they need stays in the processor's caches."""


@dataclass(frozen=True, slots=True)
class FoundSegment:
    """For each question the row that holds there (NONE: none) and else why not: UNLOADED, OUTSIDE_TEXT (nothing was
    ever mapped there) or AMBIGUOUS. ``address`` is the whole address meant; ``several`` has the pairs (row, address)
    that an ambiguous one could mean."""

    row: I64
    reason: U8
    address: U64
    several: dict[int, list[tuple[int, int]]] = field(default_factory=dict)


class Timeline:
    """Mapped segments of one context as columns, and runs that search them. ``append`` and ``end`` may be called while
    other threads ask.

    Appending costs little: runs are built at the first question after it and merged as they grow, each segment in
    logarithmically many merges.
    """

    def __init__(self) -> None:
        self.size = 0
        self.texts = 0
        """Bytes of memory that the names and paths of all targets take."""
        self.targets: list[Origin] = []
        """What segments are part of: kernels, sections, or code objects by their addresses."""
        self._numbers: dict[Origin, int] = {}
        self._columns: dict[str, NDArray[Any]] = {
            **{name: np.zeros(16, np.int64) for name in ("load", "time", "until", "target")},
            **{name: np.zeros(16, np.uint64) for name in ("start", "last", "bias")},
        }
        self._runs: tuple[Run, ...] = ()
        self._settled = 0
        self._windows: dict[int, tuple[int, set[int]]] = {}
        self._known_cells: _Cells | None = None
        self._lock = threading.Lock()

    def append(
        self, load: I64, time: I64, until: I64, start: U64, size: U64, bias: U64, targets: Sequence[Origin]
    ) -> None:
        """Add segments: ``load`` numbers the load each belongs to (never falling), ``time`` and ``until`` bound its
        life, ``[start, start + size)`` are its addresses, and address - bias (modulo 2^64) is the kernel offset,
        section offset or object address in its target. Sizes are at least 1, and no segment passes the end of 64
        bits."""
        last = start + (size - np.uint64(1))
        columns = {"load": load, "time": time, "until": until, "start": start, "last": last, "bias": bias}
        with self._lock:
            numbers = np.fromiter(map(self._number, targets), np.int64, len(targets))
            for name, values in {**columns, "target": numbers}.items():
                self._put(name, values)
            self.size += len(load)

    def end(self, load: I64, until: I64) -> None:
        """Loads that are there already end at other times than was known."""
        with self._lock:
            column = self._columns["load"][: self.size]
            first, after = np.searchsorted(column, load), np.searchsorted(column, load, side="right")
            for number, (low, high) in enumerate(zip(first.tolist(), after.tolist(), strict=True)):
                self._columns["until"][low:high] = until[number]
            self._known_cells = None

    def find(self, addresses: U64, times: I64) -> FoundSegment:
        """What holds at each whole address as of its time."""
        runs = self._search()
        if len(addresses) > QUESTIONS_ONE_BY_ONE:
            found = self._find_distinct(runs, addresses, times)
            if found is not None:
                return found
        return self._find_each(runs, addresses, times)

    def find_truncated(self, addresses: U64, times: I64, bits: int) -> FoundSegment:
        """The segments at addresses of which only the low ``bits`` (32 to 63) are known: each is completed in every
        way in which this context ever had something. Where one completion lives at the question's time it is the
        answer; where several do the answer is AMBIGUOUS. The work is that of ``find`` times the number of
        ``windows(bits)``."""
        merged = _Merged(addresses)
        fits = addresses < np.uint64(1 << bits)
        for window in self.windows(bits):
            found = self.find(addresses | np.uint64(window << bits), times)
            merged.take(found, fits)
        return merged.found()

    def windows(self, bits: int) -> list[int]:
        """The high parts, above ``bits``, of all addresses where anything was ever mapped."""
        with self._lock:
            known, high = self._windows.get(bits, (0, set()))
            for name in ("start", "last"):
                high.update(np.unique(self._columns[name][known : self.size] >> np.uint64(bits)).tolist())
            self._windows[bits] = self.size, high
            return sorted(high)

    def column(self, name: str) -> NDArray[Any]:
        """A column of all segments by its name (``append``): of numbers of loads, times, first and last addresses."""
        return self._columns[name]

    def rows_of(self, load: int) -> I64:
        """The rows of the segments of the load with that number."""
        loads = self._columns["load"][: self.size]
        return np.arange(*np.searchsorted(loads, [load, load + 1]).tolist())

    def rows_over(self, rows: I64) -> I64:
        """The rows of all segments, at whatever time, that share an address with some of ``rows``: segments of one
        load, which share none with each other."""
        start, last = (self._columns[name][: self.size] for name in ("start", "last"))
        if not len(rows):
            return rows
        order = rows[np.argsort(start[rows])]
        before = np.searchsorted(start[order], last, side="right") - 1
        return np.flatnonzero((before >= 0) & (last[order][before] >= start))

    def targets_of(self, rows: I64) -> I64:
        """Numbers into ``targets``."""
        return self._columns["target"][rows]

    def values_of(self, rows: I64, addresses: U64) -> U64:
        """The kernel offsets, section offsets or object addresses that addresses mean in the targets of rows."""
        values: U64 = addresses - self._columns["bias"][rows]
        return values

    def _find_each(self, runs: Sequence[Run], addresses: U64, times: I64) -> FoundSegment:
        found = FoundSegment(np.full(len(addresses), NONE), np.zeros(len(addresses), np.uint8), addresses)
        for first in range(0, len(addresses), STEPS):
            check_cancelled()
            self._find(runs, found, first, addresses[first : first + STEPS], times[first : first + STEPS])
        return found

    def _find_distinct(self, runs: Sequence[Run], addresses: U64, times: I64) -> FoundSegment | None:
        """``find`` for many questions: each cell of addresses and times that a question falls into is asked about once:
        between two ends of segments, and between two times at which something begins or ends, everywhere holds what
        holds at the first address and time. None where too many of the cells are ambiguous to name candidates in the
        order of the questions."""
        cells = self._cells()
        if cells is None:
            return None
        key = np.empty(len(addresses), np.int64)
        for first in range(0, len(addresses), STEPS):
            check_cancelled()
            part = slice(first, first + STEPS)
            cells.number(addresses[part], times[part], key[part])
        if cells.count <= DENSE * len(key):
            used = np.flatnonzero(np.bincount(key))
            at = np.empty(int(used[-1]) + 1, np.int64)
            at[used] = np.arange(len(used))
            at = at[key]
        else:
            used, at = np.unique(key, return_inverse=True)
        each = self._find_each(runs, *cells.first_of(used))
        if len(each.several) >= MAX_EXPLAINED or sum(map(len, each.several.values())) >= MAX_NAMED:
            return None
        found = FoundSegment(each.row[at], each.reason[at], addresses)
        if each.several:
            _explain_each(found, at, each.several)
        return found

    def _cells(self) -> _Cells | None:
        """The cells of everything that is in the runs; None where nothing is."""
        with self._lock:
            size = self._settled
            if not size:
                return None
            if self._known_cells is None or self._known_cells.size != size:
                columns = [self._columns[name][:size] for name in ("start", "last", "time", "until")]
                self._known_cells = _Cells.of(*columns)
            return self._known_cells

    def _find(self, runs: Sequence[Run], found: FoundSegment, first: int, addresses: U64, times: I64) -> None:
        best = Best.nothing(len(addresses))
        for run in runs:
            run.improve(best, addresses, times)
        live = (best.row >= 0) & (self._columns["until"][best.row] > times)
        part = slice(first, first + len(addresses))
        found.row[part] = np.where(live, best.row, NONE)
        found.reason[part] = np.where(live, 0, np.where(best.ever, Reason.UNLOADED, Reason.OUTSIDE_TEXT))
        tied = np.flatnonzero(best.tied)
        for at in range(0, len(tied), TIED_BATCH):
            self._untie(runs, found, first, tied[at : at + TIED_BATCH], addresses, times, best.time)

    def _untie(
        self, runs: Sequence[Run], found: FoundSegment, first: int, tied: I64, addresses: U64, times: I64, began: I64
    ) -> None:
        """Loads that began together, untied: those count that still live, and those that say the same count once."""
        ties = [tie for run in runs for tie in run.beginning_at(addresses[tied], began[tied], MAX_TIED)]
        number, row, crowded = (np.concatenate(column) for column in zip(*ties, strict=True))
        live = self._columns["until"][row] > times[tied[number]]
        number, row = self._distinct(number[live], row[live])
        count = np.bincount(number, minlength=len(tied))
        only = np.searchsorted(number, np.arange(len(tied)))
        count[crowded] = np.maximum(count[crowded], 2)
        found.row[first + tied] = np.where(count == 1, np.append(row, NONE)[only], NONE)
        found.reason[first + tied] = np.choose(np.minimum(count, 2), [Reason.UNLOADED, 0, Reason.AMBIGUOUS])
        named = sum(map(len, found.several.values()))
        for slot in np.flatnonzero(count > 1)[: MAX_EXPLAINED - len(found.several)].tolist():
            if named >= MAX_NAMED:
                break
            question = first + int(tied[slot])
            meant = row[only[slot] : np.searchsorted(number, slot, side="right")][:MAX_TIED].tolist()
            found.several[question] = [(each, int(found.address[question])) for each in meant]
            named += len(meant)

    def _distinct(self, number: I64, row: I64) -> tuple[I64, I64]:
        """The pairs by number, without rows that mean the same place."""
        target, bias = self._columns["target"][row], self._columns["bias"][row]
        order = np.lexsort((row, bias, target, number))
        number, row, target, bias = (column[order] for column in (number, row, target, bias))
        fresh = np.ones(len(row), np.bool_)
        fresh[1:] = (np.diff(number) != 0) | (np.diff(target) != 0) | (bias[1:] != bias[:-1])
        return number[fresh], row[fresh]

    def _number(self, target: Origin) -> int:
        number = self._numbers.setdefault(target, len(self.targets))
        if number == len(self.targets):
            self.targets.append(target)
            self.texts += sum(
                getsizeof(text) for text in (target.path, target.kernel, target.section) if isinstance(text, str)
            )
        return number

    def _put(self, name: str, values: NDArray[Any]) -> None:
        """Write after what is there, into a column twice as long where it does not fit. Who reads a shorter one still
        has all rows that its runs know."""
        column, size = self._columns[name], self.size + len(values)
        if size > len(column):
            longer = np.zeros(max(size, 2 * len(column)), column.dtype)
            longer[: self.size] = column[: self.size]
            self._columns[name] = column = longer
        column[self.size : size] = values

    def _search(self) -> tuple[Run, ...]:
        """The runs over everything that was appended; a run is merged with those before it that are not larger."""
        with self._lock:
            if self._settled < self.size:
                runs, rows = list(self._runs), np.arange(self._settled, self.size)
                while runs and len(runs[-1]) <= 2 * len(rows):
                    rows = np.concatenate([runs.pop().rows, rows])
                columns = (self._columns[name][rows] for name in ("start", "last", "time"))
                self._runs = (*runs, Run(rows, *columns))
                self._settled = self.size
            return self._runs


@dataclass(frozen=True, slots=True)
class _Cells:
    """Addresses cut at ``cuts`` where any of ``size`` segments begins or ends, and times cut at ``moments``."""

    size: int
    cuts: U64
    moments: I64

    @classmethod
    def of(cls, start: U64, last: U64, time: I64, until: I64) -> _Cells:
        ends = last[last < np.iinfo(np.uint64).max] + ONE
        cuts = np.unique(np.concatenate([np.zeros(1, np.uint64), start, ends]))
        return cls(len(start), cuts, np.unique(np.concatenate([np.zeros(1, np.int64), time, until])))

    @property
    def count(self) -> int:
        return len(self.cuts) * len(self.moments)

    def number(self, addresses: U64, times: I64, key: I64) -> None:
        """Write the cell of each address and time into ``key``. No time is below 0."""
        upper_bounds(self.cuts, np.ascontiguousarray(addresses), key)
        key -= 1
        key *= len(self.moments)
        if len(times) and times[0] == times[-1] and (times == times[0]).all():
            key += np.searchsorted(self.moments, times[0], side="right") - 1
        else:
            key += np.searchsorted(self.moments, times, side="right")
            key -= 1

    def first_of(self, numbers: I64) -> tuple[U64, I64]:
        """The first address and time of each of these cells."""
        cut, moment = np.divmod(numbers, len(self.moments))
        return self.cuts[cut], self.moments[moment]


def _explain_each(found: FoundSegment, cell: I64, several: dict[int, list[tuple[int, int]]]) -> None:
    """Name for the first ambiguous questions what those of their cells could mean."""
    named = 0
    for question in np.flatnonzero(found.reason == Reason.AMBIGUOUS)[:MAX_EXPLAINED].tolist():
        if named >= MAX_NAMED:
            break
        rows = several[int(cell[question])]
        found.several[question] = [(row, int(found.address[question])) for row, _ in rows]
        named += len(rows)


class _Merged:
    """Answers for the ways in which truncated addresses can be completed, while they come."""

    def __init__(self, addresses: U64) -> None:
        self.row = np.full(len(addresses), NONE)
        self.address = addresses.copy()
        self.count = np.zeros(len(addresses), np.int64)
        self.unloaded = np.zeros(len(addresses), np.bool_)
        self.several: dict[int, list[tuple[int, int]]] = {}
        self._named = 0

    def take(self, found: FoundSegment, fits: NDArray[np.bool_]) -> None:
        hit = fits & (found.row >= 0)
        again = hit & (self.count > 0)
        for question in np.flatnonzero(again)[:MAX_EXPLAINED].tolist():
            self._explain(question, [(int(found.row[question]), int(found.address[question]))])
        for question, meanings in found.several.items():
            if fits[question]:
                self._explain(question, meanings)
        first = hit & (self.count == 0)
        self.row[first], self.address[first] = found.row[first], found.address[first]
        self.count += hit + 2 * (fits & (found.reason == Reason.AMBIGUOUS))
        self.unloaded |= fits & (found.reason == Reason.UNLOADED)

    def _explain(self, question: int, meanings: list[tuple[int, int]]) -> None:
        if self._named >= MAX_NAMED or (question not in self.several and len(self.several) >= MAX_EXPLAINED):
            return
        before = [(int(self.row[question]), int(self.address[question]))] if self.row[question] >= 0 else []
        known = self.several.setdefault(question, before)
        named = meanings[: MAX_TIED - len(known)]
        known.extend(named)
        self._named += len(named)

    def found(self) -> FoundSegment:
        gone = np.where(self.unloaded, Reason.UNLOADED, Reason.OUTSIDE_TEXT)
        reason = np.where(self.count == 0, gone, np.where(self.count == 1, 0, Reason.AMBIGUOUS)).astype(np.uint8)
        return FoundSegment(np.where(self.count == 1, self.row, NONE), reason, self.address, self.several)
