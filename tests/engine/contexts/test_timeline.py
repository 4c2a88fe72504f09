"""The map of a context beside a naive one that walks through all it was told."""

from __future__ import annotations

import threading
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from symd.engine.contexts.timeline import FOREVER, MAX_TIED, QUESTIONS_ONE_BY_ONE, STEPS, Timeline
from symd.model.answers import Reason
from symd.model.cancellation import cancelled_by
from symd.model.contexts import Origin
from symd.query.symbolize import MAX_NAMED

TOP = 1 << 64


class Mapped(NamedTuple):
    load: int
    time: int
    until: int
    start: int
    size: int
    bias: int
    module: str


def timeline_of(*batches):
    timeline = Timeline()
    for batch in batches:
        append(timeline, batch)
    return timeline


def append(timeline, batch):
    if batch:
        columns = list(zip(*batch, strict=True))
        signed = [np.array(column, np.int64) for column in columns[:3]]
        unsigned = [np.array(column, np.uint64) for column in columns[3:6]]
        timeline.append(*signed, *unsigned, [Origin(module) for module in columns[6]])


def naive(mapped, address, time):
    """The definition, word for word: (reason or None, the places that could be meant)."""
    over = [each for each in mapped if each.start <= address < each.start + each.size]
    begun = [each for each in over if each.time <= time]
    last = [each for each in begun if each.time == max(other.time for other in begun)]
    live = {(each.module, (address - each.bias) % TOP) for each in last if each.until > time}
    if not over:
        return Reason.OUTSIDE_TEXT, set()
    return (Reason.UNLOADED, None, Reason.AMBIGUOUS)[min(len(live), 2)], live


def answer(timeline, found, number):
    """What the timeline says, in the same words."""

    def meant(row, address):
        rows = np.array([row])
        value = timeline.values_of(rows, np.array([address], np.uint64))
        return timeline.targets[int(timeline.targets_of(rows)[0])].module, int(value[0])

    row = int(found.row[number])
    if row >= 0:
        return None, {meant(row, int(found.address[number]))}
    reason = Reason(int(found.reason[number]))
    return reason, {meant(row, address) for row, address in found.several.get(number, ())}


small = st.integers(0, 24)
mapped = st.builds(
    lambda time, life, start, size, module: (time, time + life if life else FOREVER, start, size, module),
    small, st.integers(0, 12), small, st.integers(1, 12), st.sampled_from("abc"),
)  # fmt: skip
steps = st.lists(st.one_of(st.lists(mapped, max_size=6), st.tuples(small, small), st.just("ask")), max_size=14)


@pytest.fixture(params=[QUESTIONS_ONE_BY_ONE, 0], ids=["one by one", "cells"])
def few(request, monkeypatch):
    """Also with questions of one cell asked once, as many are."""
    monkeypatch.setattr("symd.engine.contexts.timeline.QUESTIONS_ONE_BY_ONE", request.param)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("dense", [0, 4])
@pytest.mark.parametrize("origin", [0, (1 << 63) - 5, TOP - 40])
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps, seed=st.integers(0, 1 << 32))
def test_an_address_at_a_time_is_what_a_naive_map_says(origin, dense, steps, seed):
    """Loads come in any order of time, overlap, share times, end late or early, and questions come between."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("symd.engine.contexts.timeline.DENSE", dense)
        _check_with_a_naive_map(origin, steps, seed)


def _check_with_a_naive_map(origin, steps, seed):
    timeline, known, chance = Timeline(), [], np.random.default_rng(seed)
    for step in [*steps, "ask"]:
        if isinstance(step, list):
            batch = [
                Mapped(len(known) + at, time, until, origin + start, min(size, 40 - start), origin + start, module)
                for at, (time, until, start, size, module) in enumerate(step)
            ]
            known += batch
            append(timeline, batch)
        elif step == "ask":
            asked = chance.integers(0, 40, 60).astype(np.uint64) + np.uint64(origin), chance.integers(0, 40, 60)
            found = timeline.find(*asked)
            for number, (address, time) in enumerate(zip(*(column.tolist() for column in asked), strict=True)):
                assert answer(timeline, found, number) == naive(known, address, time)
        elif step[0] < len(known):
            known[step[0]] = known[step[0]]._replace(until=known[step[0]].time + 1 + step[1])
            timeline.end(np.array([step[0]]), np.array([known[step[0]].until]))


@settings(max_examples=200, deadline=None)
@given(loads=st.lists(mapped, min_size=1, max_size=10), high=st.lists(st.integers(0, 3), min_size=10, max_size=10))
def test_a_truncated_address_is_completed_when_only_one_lives(loads, high):
    known = [
        Mapped(at, time, until, (where << 32) + start, size, (where << 32) + start, module)
        for at, ((time, until, start, size, module), where) in enumerate(zip(loads, high, strict=False))
    ]
    timeline = timeline_of(known)
    addresses, times = (grid.ravel() for grid in np.meshgrid(np.arange(36), np.arange(0, 30, 5)))
    found = timeline.find_truncated(addresses.astype(np.uint64), times, 32)
    for number, (address, time) in enumerate(zip(addresses.tolist(), times.tolist(), strict=True)):
        each = [(where, naive(known, (where << 32) + address, time)) for where in range(4)]
        meanings = [(where, meaning) for where, (_, live) in each for meaning in sorted(live)]
        reason = int(found.reason[number])
        if len(meanings) == 1:
            assert answer(timeline, found, number) == (None, {meanings[0][1]})
            assert int(found.address[number]) == (meanings[0][0] << 32) + address
        elif meanings:
            assert reason == Reason.AMBIGUOUS
            assert answer(timeline, found, number)[1] == {meaning for _, meaning in meanings}
            assert {whole >> 32 for _, whole in found.several[number]} == {where for where, _ in meanings}
        else:
            unloaded = any(why is Reason.UNLOADED for _, (why, _) in each)
            assert reason == (Reason.UNLOADED if unloaded else Reason.OUTSIDE_TEXT)


def test_a_segment_may_lie_across_two_windows_and_end_with_the_address_space():
    over = Mapped(0, 0, FOREVER, (5 << 32) - 8, 16, 0, "across")
    top = Mapped(1, 0, FOREVER, TOP - 4, 4, 0, "top")
    timeline = timeline_of([over, top])
    low = np.array([0xFFFFFFF8, 7, 8, 0xFFFFFFFC], np.uint64)
    found = timeline.find_truncated(low, np.zeros(4, np.int64), 32)
    assert [hex(address) for address in found.address.tolist()[:2]] == ["0x4fffffff8", "0x500000007"]
    assert found.reason.tolist() == [0, 0, Reason.OUTSIDE_TEXT, Reason.AMBIGUOUS]
    whole = timeline.find(np.array([TOP - 1, TOP - 5, 0], np.uint64), np.zeros(3, np.int64))
    assert whole.row.tolist() == [1, -1, -1]


def test_a_later_load_takes_its_part_for_good():
    """The later one lies over the middle of the earlier one; when it goes, what was below it does not come back."""
    timeline = timeline_of([Mapped(0, 10, FOREVER, 100, 100, 100, "old"), Mapped(1, 20, 30, 140, 20, 140, "new")])
    asked = [(110, 9), (110, 10), (145, 19), (145, 20), (145, 29), (145, 30), (139, 30), (160, 30)]
    addresses, times = (np.array(column) for column in zip(*asked, strict=True))
    found = timeline.find(addresses.astype(np.uint64), times)
    gone = Reason.UNLOADED
    assert found.row.tolist() == [-1, 0, 0, 1, 1, -1, 0, 0]
    assert found.reason.tolist() == [gone, 0, 0, 0, 0, gone, 0, 0]


def test_so_many_loads_of_one_time_and_place_are_ambiguous_and_cost_little():
    """More than are told apart: still no guess, and no more candidates than the bound."""
    crowd = [Mapped(at, 5, FOREVER, 0, 100, at, f"module {at}") for at in range(5000)]
    timeline = timeline_of(crowd)
    found = timeline.find(np.full(20_000, 50, np.uint64), np.full(20_000, 7))
    assert set(found.reason.tolist()) == {Reason.AMBIGUOUS}
    assert len(found.several) == MAX_NAMED // MAX_TIED + 1
    assert {len(meanings) for meanings in found.several.values()} == {MAX_TIED}


def test_nested_intervals_take_room_that_grows_slowly():
    """Each of 20,000 lies inside the last one: a table of cells and intervals would have 4 x 10^8 entries."""
    count = 20_000
    timeline = timeline_of([Mapped(at, at, FOREVER, at, 3 * count - 2 * at, at, "m") for at in range(count)])
    found = timeline.find(np.array([count - 1, 0, 3 * count - 1], np.uint64), np.full(3, count))
    assert found.row.tolist() == [count - 1, 0, 0]
    (run,) = timeline._runs
    assert sum(len(level.keys) for level in run._levels) < 2 * count * 17


def test_appending_one_by_one_merges_each_segment_only_a_few_times(monkeypatch):
    from symd.engine.contexts import timeline as module  # noqa: PLC0415

    built = []

    class Counted(module.Run):
        def __init__(self, rows, *columns):
            built.append(len(rows))
            super().__init__(rows, *columns)

    monkeypatch.setattr(module, "Run", Counted)
    timeline, count = Timeline(), 1000
    for at in range(count):
        append(timeline, [Mapped(at, at, FOREVER, 16 * at, 16, 0, "m")])
        assert timeline.find(np.array([16 * at], np.uint64), np.array([at])).row.tolist() == [at]
    assert sum(built) < 12 * count
    assert len(timeline._runs) <= 10


def test_questions_beside_appends_see_whole_batches():
    """Each batch lies over the last one's address; whoever asks gets one of those that were there when he asked."""
    timeline, count, wrong = Timeline(), 300, []
    append(timeline, [Mapped(0, 0, FOREVER, 0, 16, 0, "m")])

    def ask():
        while timeline.size < count:
            before = timeline.size - 1
            row = int(timeline.find(np.array([8], np.uint64), np.array([count])).row[0])
            if not before <= row < timeline.size:
                wrong.append((before, row))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for at in range(1, count):
        append(timeline, [Mapped(at, at, FOREVER, 0, 16, 0, "m")])
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("bits", [64, 32])
def test_of_many_ambiguous_questions_so_many_candidates_are_named_in_all(bits):
    timeline = timeline_of([Mapped(number, 7, FOREVER, 0, 1 << 20, number, "m") for number in range(MAX_TIED)])
    addresses, times = np.arange(5000, dtype=np.uint64), np.full(5000, 9)
    found = timeline.find(addresses, times) if bits == 64 else timeline.find_truncated(addresses, times, bits)
    assert set(found.reason.tolist()) == {Reason.AMBIGUOUS}
    assert MAX_NAMED <= sum(map(len, found.several.values())) < MAX_NAMED + MAX_TIED
    assert {len(meant) for meant in found.several.values()} == {MAX_TIED}


@pytest.mark.parametrize("bits", [64, 32])
def test_nothing_is_looked_for_once_nobody_waits(bits):
    """Truncated addresses are looked for in each of the places that each could stand for."""
    timeline = timeline_of([Mapped(number << 32, 7, FOREVER, 0, 16, number, "m") for number in range(10)])
    asked, left = [], RuntimeError()

    def check():
        asked.append(None)
        if len(asked) == 3:
            raise left

    addresses, times = np.zeros(5 * STEPS, np.uint64), np.full(5 * STEPS, 9)
    look = timeline.find if bits == 64 else partial(timeline.find_truncated, bits=bits)
    with pytest.raises(RuntimeError), cancelled_by(check):
        look(addresses, times)
    assert len(asked) == 3
