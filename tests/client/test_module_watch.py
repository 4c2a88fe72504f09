"""Modules as they arrive, are loaded, move and go: in-process and over the channel, resumed after anything, by any daemon of the store."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from symd import Client
from symd.api import Symbolizer
from symd.config import Limits
from symd.engine.contexts.watches import Watcher
from symd.engine.engine import Engine
from symd.errors import BadQuery, ContextNotFound, LimitExceeded, PositionLost, Unavailable
from symd.model.addresses import ByAddress, ByKernel, BySection
from symd.model.breakpoints import Breakpoint, SourceLine
from symd.model.contexts import Context, Load, Segment, Unload
from symd.model.watches import LoadBegan, LoadEnded, ModuleAdded, ModuleRemoved, Resolved, Watch, Watching
from symd.server.config import Config
from symd.server.listening import listening
from symd.server.server import Daemon, build_daemon
from symd.store import Store
from symd.store.module_log import LogSubscription

SAMPLES = Path(__file__).parents[2] / "samples/kernels/bin"
VADD = (SAMPLES / "vadd/skl-O0.dbg").read_bytes()
RAYCAST = (SAMPLES / "raycast/dg2-opt.dbg").read_bytes()
HEAP = 0xFFFF8000_FFBF0000
WATCHES = 4
LONG = 30.0
"""Seconds after which an event that does not come is given up."""


@dataclass
class Served:
    """Daemons over one folder, each with its client."""

    folder: Path
    limits: Limits = field(default_factory=Limits)
    stack: ExitStack = field(default_factory=ExitStack)
    count: int = 0

    def begin(self, *, durable: bool = False) -> tuple[Engine, Client, Daemon]:
        self.count += 1
        config = Config(
            limits=self.limits,
            store=self.folder / "store",
            address=f"unix:{self.folder}/s{self.count}",
            watches=WATCHES,
            grace=1.0,
        )
        engine = self.stack.enter_context(Engine(Store(config.store, config.limits, durable=durable), config.limits))
        daemon = build_daemon(engine, config)
        address = self.stack.enter_context(listening(daemon.server, config.address))
        daemon.server.start()
        self.stack.callback(daemon.stop, 1)
        return engine, self.stack.enter_context(Client(address, timeout=LONG)), daemon


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    with made.stack:
        yield made


@pytest.fixture(params=["engine", "client"])
def symd(request: pytest.FixtureRequest, served: Served) -> Symbolizer:
    engine, client, _ = served.begin()
    return engine if request.param == "engine" else client


def taken(watch: Watch, count: int) -> list[Any]:
    """So many events; the watch is closed, and the test fails, where they do not come."""
    timer = threading.Timer(LONG, watch.close)
    timer.start()
    found = list(islice(watch, count))
    timer.cancel()
    assert len(found) == count
    return found


def told(events: list[Any]) -> list[tuple[type, str]]:
    """What happened, and where: a load that is told later may have ended by then."""
    return [(type(each), each.resume_token) for each in events]


def answered(watch: Watch, count: int) -> list[Resolved]:
    """So many answers to breakpoints, with what stands between them left out."""
    found: list[Resolved] = []
    while len(found) < count:
        found += [each for each in taken(watch, 1) if isinstance(each, Resolved)]
    return found


def at_kernel(address: int, kernel: str) -> Segment:
    return Segment(address, 0, ByKernel(kernel, 0))


def test_a_module_arrives_is_loaded_moves_and_goes(symd: Symbolizer) -> None:
    with symd.watch() as watch:
        (first,) = taken(watch, 1)
        assert isinstance(first, Watching)
        digest = symd.add(VADD, "a label").sha256
        context = Context("host", 7, "gpu 0", "CLOCK_BOOTTIME", 48)
        name = symd.contexts.add(context)
        symd.contexts.record(name, [Load(digest, 100, (at_kernel(HEAP, "vadd"),), key="k")])
        symd.contexts.record(name, [Load(digest, 200, (at_kernel(HEAP + 0x10000, "vadd"),), key="k")])
        symd.contexts.record(name, [Unload("k", 300)])
        symd.remove(digest)
        events = taken(watch, 6)
    added, loaded, moved, again, gone, removed = events
    assert isinstance(added, ModuleAdded)
    assert added.digest == digest
    assert added.record is None or added.record.label == "a label"  # it may be gone by the time that this is told
    assert [type(each) for each in events[1:]] == [LoadBegan, LoadEnded, LoadBegan, LoadEnded, ModuleRemoved]
    assert [each.loaded.load.key for each in events[1:5]] == ["k"] * 4
    assert [loaded.loaded.load.segments[0].address, again.loaded.load.segments[0].address] == [HEAP, HEAP + 0x10000]
    assert [moved.loaded.load.unload_time, gone.loaded.load.unload_time] == [200, 300]
    assert loaded.loaded.number == moved.loaded.number != again.loaded.number == gone.loaded.number
    assert loaded.loaded.context.context == context
    assert removed.digest == digest
    assert len({each.resume_token for each in (first, *events)}) == 7


def test_what_is_there_comes_first_unless_only_what_is_new_is_wanted(symd: Symbolizer) -> None:
    """Modules, then the loads that have not ended; each once."""
    digests = [symd.add(data).sha256 for data in (VADD, RAYCAST)]
    name = symd.contexts.add(Context(process=7))
    symd.contexts.record(
        name,
        [Load(digests[0], 1, key="ended", unload_time=2), Load(digests[0], 3, key="a"), Load(digests[1], 4, key="b")],
    )
    with symd.watch() as watch:
        *modules, one, two, caught_up = taken(watch, 5)
    assert [(each.digest, each.resume_token) for each in modules] == [(digest, "") for digest in digests]
    assert [(each.loaded.load.key, each.resume_token) for each in (one, two)] == [("a", ""), ("b", "")]
    assert isinstance(caught_up, Watching)
    with symd.watch(only_new=True) as watch:
        assert taken(watch, 1) == [caught_up]
        symd.contexts.record(name, [Unload("a", 9)])
        (ended,) = taken(watch, 1)
        assert isinstance(ended, LoadEnded)
        assert ended.loaded.load.unload_time == 9


def test_a_watch_of_one_context_hears_of_nothing_else(symd: Symbolizer) -> None:
    mine, other = (symd.contexts.add(Context(process=number)) for number in (1, 2))
    with symd.watch(contexts=[mine]) as watch:
        taken(watch, 1)
        symd.add(VADD)
        symd.contexts.record(other, [Load("ab" * 32, 1, key="other")])
        symd.contexts.record(mine, [Load("ab" * 32, 2, key="mine")])
        assert [each.loaded.load.key for each in taken(watch, 1)] == ["mine"]


def test_a_quiet_context_on_a_busy_store_is_given_further_positions(symd: Symbolizer) -> None:
    """Else the position that its client keeps would be forgotten, although nothing of it is."""
    mine, other = (symd.contexts.add(Context(process=number)) for number in (1, 2))
    with symd.watch(contexts=[mine]) as watch:
        (first,) = taken(watch, 1)
        symd.contexts.record(other, [Load("ab" * 32, time, key=str(time)) for time in range(1, 2500)])
        further = taken(watch, 2)
    assert all(isinstance(each, Watching) for each in further)
    assert len({each.resume_token for each in (first, *further)}) == 3


class BusySubscription(LogSubscription):
    """Each time that a watch waits, others do so much; after some times it is closed."""

    def __init__(self, engine: Engine, context: str, each: int, times: int) -> None:
        super().__init__()
        self._engine, self._context, self._each, self._times = engine, context, each, times

    def wait(self) -> bool:
        self._times -= 1
        if self._times < 0:
            self.close()
            return False
        loads = [Load("ab" * 32, time, key=f"{self._times} {time}") for time in range(1, self._each + 1)]
        self._engine.contexts.record(self._context, loads)
        return True


def test_a_quiet_context_is_given_further_positions_also_where_others_do_little_at_a_time() -> None:
    with Engine(Store.temporary(Limits())) as engine:
        mine, other = (engine.contexts.add(Context(process=number)) for number in (1, 2))
        subscription = BusySubscription(engine, other, each=300, times=8)
        events = list(Watcher(engine.store, subscription, engine._indexes.whole, engine._contexts, (), {mine}).events())
    assert [type(each) for each in events] == [Watching] * 3
    assert len({each.resume_token for each in events if isinstance(each, Watching)}) == 3


def test_it_goes_on_after_any_position_without_loss_or_repetition(symd: Symbolizer) -> None:
    name = symd.contexts.add(Context(process=7))
    with symd.watch() as watch:
        (begin,) = taken(watch, 1)
        symd.add(VADD)
        for number in range(5):
            symd.contexts.record(name, [Load("ab" * 32, number, key=str(number)), Unload(str(number), 50 + number)])
        events = [begin, *taken(watch, 11)]
    for number, event in enumerate(events):
        with symd.watch(resume_token=event.resume_token) as again:
            caught_up, *rest = taken(again, len(events) - number)
        assert (caught_up, caught_up.resume_token) == (Watching(), event.resume_token)
        assert [each.resume_token for each in rest] == [each.resume_token for each in events[number + 1 :]]


def test_what_cannot_be_watched_is_refused(symd: Symbolizer) -> None:
    for arguments, error in (
        ({"resume_token": "yesterday"}, BadQuery),
        ({"resume_token": "0" * 16 + "-3"}, PositionLost),
        ({"contexts": ["ab" * 16]}, ContextNotFound),
        ({"contexts": ["nothing"]}, BadQuery),
    ):
        with pytest.raises(error):
            next(symd.watch(**arguments))


def test_too_old_a_position_is_said_by_name(served: Served) -> None:
    served.limits = Limits(module_events=3)
    _, client, _ = served.begin()
    with client.watch() as watch:
        position = taken(watch, 1)[0].resume_token
    name = client.contexts.add(Context(process=7))
    client.contexts.record(name, [Load("ab" * 32, time, key=str(time)) for time in range(4)])
    with client.watch(resume_token=position) as watch, pytest.raises(PositionLost, match="more than 3 modules") as lost:
        next(watch)
    assert lost.value.metadata["limit"] == "module_events"
    assert "without a resume token" in lost.value.hint


def test_one_who_does_not_read_is_ended_by_name_and_holds_up_nobody(served: Served) -> None:
    """The log is what waits for a slow client; what it has forgotten meanwhile ends the watch."""
    served.limits = Limits(module_events=2000)
    _, client, _ = served.begin()
    name = client.contexts.add(Context(process=7, attributes={"a": "x" * 4000}))
    slow = client.watch()
    assert isinstance(next(slow), Watching)
    with client.watch() as quick:
        taken(quick, 1)
        for first in range(0, 5000, 1000):
            loads = [Load("ab" * 32, time, key="y" * 3000 + str(time)) for time in range(first, first + 1000)]
            client.contexts.record(name, loads)
            assert [each.loaded.load.time for each in taken(quick, 1000)] == list(range(first, first + 1000))
    with pytest.raises(PositionLost):
        list(slow)


def test_a_stopping_daemon_ends_its_watches_and_another_goes_on(served: Served) -> None:
    engine, client, daemon = served.begin()
    watch = client.watch()
    position = next(watch).resume_token
    daemon.stop(1)
    with pytest.raises(Unavailable):
        next(watch)
    engine.add(VADD)
    _, other, _ = served.begin()
    with other.watch(resume_token=position) as watch:
        assert [type(each) for each in taken(watch, 2)] == [Watching, ModuleAdded]


def test_daemons_that_share_a_store_tell_the_same(served: Served) -> None:
    """What either does is heard at both, in the same order and with the same positions; a client may change over at any of them."""
    _, one, _ = served.begin(durable=True)
    _, two, _ = served.begin(durable=True)
    with one.watch() as at_one, two.watch() as at_two:
        assert taken(at_one, 1) == taken(at_two, 1)
        name = one.contexts.add(Context(process=7))
        digest = one.add(VADD).sha256
        two.contexts.record(name, [Load(digest, 1, key="a")])
        one.contexts.record(name, [Unload("a", 2)])
        two.add(RAYCAST)
        heard = taken(at_one, 4)
        assert told(taken(at_two, 4)) == told(heard)
    assert [type(each) for each in heard] == [ModuleAdded, LoadBegan, LoadEnded, ModuleAdded]
    for client, event, rest in ((two, heard[0], heard[1:]), (one, heard[2], heard[3:])):
        with client.watch(resume_token=event.resume_token) as watch:
            assert told(taken(watch, 1 + len(rest))[1:]) == told(rest)


def test_watches_are_bounded_and_leave_nothing(served: Served) -> None:
    engine, client, _ = served.begin()
    watches = [client.watch() for _ in range(WATCHES)]
    for watch in watches:
        taken(watch, 1)
    with pytest.raises(LimitExceeded, match="4 watches are open"):
        next(client.watch())
    for watch in watches:
        watch.close()
        assert list(watch) == []
    until = time.monotonic() + LONG
    while list(engine.store.module_log._subscriptions) and time.monotonic() < until:
        time.sleep(0.01)
    assert not list(engine.store.module_log._subscriptions)


def located(event: object) -> tuple[str | None, list[list[int]]]:
    """The key of the load by which a breakpoint fired, and the device addresses of each place."""
    assert isinstance(event, Resolved)
    key = event.loaded.load.key if event.loaded else None
    return key, [list(each.device_addresses) for each in event.answer.locations]


def test_a_breakpoint_set_before_the_program_starts_says_where_it_was_loaded(symd: Symbolizer) -> None:
    """It fires when the module is added, and again when a process loads it: where, when, and at which device address."""
    with symd.watch([Breakpoint("b", SourceLine("vadd.cl", 8))]) as watch:
        assert next(watch) == Watching()
        module = symd.add(VADD)
        digest, kernel = module.sha256, module.objects[0].kernels[0]
        in_section = Segment(HEAP, kernel.size or 0, BySection(kernel.section or 0, kernel.offset))
        name = symd.contexts.add(Context("host", 4711, "gpu 0", "CLOCK_BOOTTIME", 48))
        low = HEAP & (1 << 48) - 1
        told = [
            Load(digest, 10, (at_kernel(low, "vadd"),), key="kernel"),
            Load(digest, 20, (in_section,), key="section"),
            Load(digest, 30, (Segment(HEAP + 0x2000, 0x400, ByKernel("vadd", 0x100)),), key="part"),
            Load(digest, 50, key="nowhere"),
        ]
        symd.contexts.record(name, told)
        events = answered(watch, 5)
    assert {event.digest for event in events} == {digest}
    first = symd.locate(digest, SourceLine("vadd.cl", 8))
    assert events[0].answer == first
    offsets = [each.section_offset - kernel.offset for each in first.locations]
    assert offsets
    assert [located(event) for event in events] == [
        (None, [[] for _ in offsets]),
        ("kernel", [[HEAP + offset] for offset in offsets]),
        ("section", [[HEAP + offset] for offset in offsets]),
        ("part", [[HEAP + 0x2000 + offset - 0x100] if offset in range(0x100, 0x500) else [] for offset in offsets]),
        ("nowhere", [[] for _ in offsets]),
    ]
    loaded = events[1].loaded
    assert loaded is not None
    assert (loaded.context.context.process, loaded.load.time, loaded.load.segments) == (4711, 10, ())


def test_what_a_breakpoint_says_of_the_device_is_what_is_answered_there(symd: Symbolizer) -> None:
    """Both ways between source and device: a load by object addresses, at a base, in a module of several texts."""
    digest = symd.add((SAMPLES / "filters/driver-l0-igc2-dg2-opt.debug-zebin").read_bytes()).sha256
    name = symd.contexts.add(Context("host", 1, "gpu 0", "CLOCK_BOOTTIME", 48))
    symd.contexts.record(name, [Load(digest, 10, load_base=0, key="base")])
    with symd.watch([Breakpoint("b", SourceLine("filters.clcpp", 45))]) as watch:
        there, loaded = answered(watch, 2)
    assert located(there)[0] is None
    key, addresses = located(loaded)
    assert key == "base"
    assert addresses
    assert all(len(each) == 1 for each in addresses)
    column = np.array([each[0] for each in addresses], np.uint64)
    answers = symd.contexts.symbolize(name, column, 10)
    for place, answer in zip(loaded.answer.locations, answers, strict=True):
        assert (answer.module, answer.answer.section_offset) == (digest, place.section_offset)
        assert place.line in {frame.line for frame in answer.answer.frames}


def test_a_load_that_was_told_before_its_module_came_fires_when_it_does(symd: Symbolizer) -> None:
    name = symd.contexts.add(Context("host", 1))
    with Engine(Store.temporary()) as elsewhere:
        digest = elsewhere.add(VADD).sha256
    with symd.watch([Breakpoint("b", SourceLine("vadd.cl", 8))], only_new=True) as watch:
        assert next(watch) == Watching()
        symd.contexts.record(name, [Load(digest, 10, (Segment(HEAP, 0x800, ByAddress(0)),), key="early")])
        symd.contexts.record(
            name, [Load(digest, 10, (Segment(HEAP, 0x800, ByAddress(0)),), key="gone", unload_time=11)]
        )
        symd.add(VADD)
        assert [located(each)[0] for each in answered(watch, 2)] == [None, "early"]


def test_a_module_that_is_being_added_fires_no_load_before_itself(tmp_path: Path) -> None:
    """The bytes are in the store for a while before the module is told of."""
    with Engine(Store(tmp_path, durable=False)) as engine:
        name = engine.contexts.add(Context("host", 1))
        there, segments = engine.add(RAYCAST).sha256, (Segment(HEAP, 0x800, ByAddress(0)),)
        breakpoints = [Breakpoint("b", SourceLine("vadd.cl", 8)), Breakpoint("r", SourceLine("raycast.cl", 30))]
        with engine.watch(breakpoints, only_new=True) as watch:
            assert next(watch) == Watching()
            digest = engine.store.put(VADD)
            engine.contexts.record(name, [Load(digest, 10, segments, key="early")])
            engine.contexts.record(name, [Load(digest, 10, segments, key="gone", unload_time=11)])
            engine.contexts.record(name, [Load(there, 10, segments, key="mark")])
            assert located(*answered(watch, 1))[0] == "mark"
            engine.resume()
            assert [located(each)[0] for each in answered(watch, 2)] == [None, "early"]


def test_a_watch_of_breakpoints_goes_on_after_each_of_its_positions(symd: Symbolizer) -> None:
    pending = [Breakpoint("b", SourceLine("vadd.cl", 8)), Breakpoint("end", SourceLine("vadd.cl", 999))]
    name = symd.contexts.add(Context("host", 1))
    with symd.watch(pending) as watch:
        begin = next(watch)
        digest = symd.add(VADD).sha256
        symd.add(RAYCAST)
        symd.contexts.record(name, [Load(digest, 10, (at_kernel(HEAP, "vadd"),), key="one")])
        symd.contexts.record(name, [Load(digest, 20, key="two")])
        events = taken(watch, 10)  # of RAYCAST only that it was added
    of_breakpoints = [each for each in events if isinstance(each, Resolved)]
    assert [(event.id, located(event)[0]) for event in of_breakpoints] == [
        (breakpoint_, key) for key in (None, "one", "two") for breakpoint_ in ("b", "end")
    ]
    assert begin == Watching()
    of_module = [False, False, True]  # only the last is all that is told of its module, or load
    assert [bool(event.resume_token) for event in events] == [*of_module, True, *of_module * 2]
    positions = {0: begin.resume_token} | {
        number + 1: event.resume_token for number, event in enumerate(events) if event.resume_token
    }
    assert len(set(positions.values())) == 5
    for told, position in positions.items():
        with symd.watch(pending, only_new=True, resume_token=position) as again:
            first, *rest = taken(again, 1 + len(events) - told)
        assert (first, first.resume_token) == (Watching(), position)
        assert rest == events[told:]
        assert [each.resume_token for each in rest] == [each.resume_token for each in events[told:]]


def test_a_position_that_breakpoints_cannot_go_on_after_is_refused(symd: Symbolizer) -> None:
    pending = [Breakpoint("b", SourceLine("vadd.cl", 8))]
    for token, error in (("0123456789abcdef-1", PositionLost), ("yesterday", BadQuery)):
        with pytest.raises(error):
            next(symd.watch(pending, resume_token=token))


def test_loads_of_some_interfaces_alone(symd: Symbolizer) -> None:
    name = symd.contexts.add(Context("host", 1))
    keys = ["level-zero:0x1", "opencl:0x1", "opencl", "opencl-more:0x1", "cuda:0x1"]
    symd.contexts.record(name, [Load("ab" * 32, 10, key=key) for key in keys])
    with symd.watch(apis=["opencl", "cuda"]) as watch:
        there = taken(watch, 4)
        symd.add(VADD)
        symd.contexts.record(name, [Unload(key, 20) for key in keys])
        went = taken(watch, 3)
    assert [each.loaded.load.key for each in there[:-1]] == ["opencl:0x1", "opencl", "cuda:0x1"]
    assert isinstance(there[-1], Watching)
    assert [each.loaded.load.key for each in went] == ["opencl:0x1", "opencl", "cuda:0x1"]
    assert {type(each) for each in went} == {LoadEnded}
    with pytest.raises(BadQuery, match="is not a driver API"):
        next(symd.watch(apis=["directx"]))
