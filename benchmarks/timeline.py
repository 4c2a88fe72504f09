"""The map of device addresses over time: a million segments, four loads at each address, looked up as of a time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.grpc_path import Row
from symd.engine.contexts.timeline import Timeline
from symd.model.contexts import Origin

SEGMENTS = 1_000_000
FEW = 1_000
ONE_BY_ONE = 2_000
HEAP = 0x7F00_0000_0000
SLOT = 1 << 18


def rows(rounds: int) -> Iterator[Row]:
    """Microseconds of a lookup, alone and in a batch of a million; growth from a thousand segments; an event more."""
    large, small = Work(SEGMENTS), Work(FEW)
    alone = middle(lambda: large.one_by_one(ONE_BY_ONE), rounds) / ONE_BY_ONE * 1e6
    few = middle(lambda: small.one_by_one(ONE_BY_ONE), rounds) / ONE_BY_ONE * 1e6
    batch = middle(large.batch, rounds) / SEGMENTS * 1e6
    event = middle(lambda: large.append_and_ask(200), rounds) / 200 * 1e6
    yield Row("one address as of a time, among a million mappings: µs", alone, 500, 150, False,
              f"{alone:.0f} µs; built in {large.built:.1f} s")  # fmt: skip
    yield Row("the same, to one among a thousand", alone / few, 10, 3, False, f"{alone:.0f} µs, {few:.0f} µs")
    yield Row("the same in a batch of a million: µs each", batch, 10, 3, False, f"{1 / batch:.2f} M addresses/s")
    yield Row("one more load, then a question: µs", event, 5000, 1000, False, "median, merges of runs included")


class Work:
    """A map of loads that come to slots, stay a while, and are followed by others; and questions about it."""

    def __init__(self, segments: int) -> None:
        chance = np.random.default_rng(3)
        self.segments = segments
        self.began = np.sort(chance.integers(0, 10**12, segments))
        self.start = HEAP + SLOT * chance.integers(0, max(segments // 4, 1), segments).astype(np.uint64)
        size = 4096 * chance.integers(1, 64, segments).astype(np.uint64)
        until = self.began + chance.integers(10**6, 10**9, segments)
        targets = [Origin(f"{number % 1000:064x}") for number in range(segments)]
        self.timeline = Timeline()
        begun = time.perf_counter()
        self.timeline.append(np.arange(segments), self.began, until, self.start, size, self.start, targets)
        self.timeline.find(self.start[:1], self.began[:1])
        self.built = time.perf_counter() - begun
        asked = chance.permutation(segments)
        self.addresses, self.times = self.start[asked] + np.uint64(8), self.began[asked] + 1

    def one_by_one(self, count: int) -> None:
        for number in range(count):
            at = slice(number % self.segments, number % self.segments + 1)
            self.timeline.find(self.addresses[at], self.times[at])

    def batch(self) -> None:
        found = self.timeline.find(self.addresses, self.times)
        assert (found.row >= 0).mean() > 0.9

    def append_and_ask(self, count: int) -> None:
        target = [Origin("f" * 64)]
        for number in range(count):
            load = np.array([self.timeline.size])
            at, began = self.start[number : number + 1], 10**13 + load
            self.timeline.append(load, began, began + 9, at, np.array([64], np.uint64), at, target)
            assert self.timeline.find(at, began).row[0] == load[0]


def middle(work: Callable[[], None], rounds: int) -> float:
    """Median seconds."""
    taken = []
    for _ in range(rounds):
        begun = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)
