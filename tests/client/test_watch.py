"""A watch whose breakpoints come and go while it runs, of one context or of all: in-process and over the channel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from symd.api import Symbolizer
from symd.engine.engine import Engine
from symd.errors import BadQuery, ContextNotFound
from symd.model.addresses import ByKernel, DeviceAddress, KernelOffset
from symd.model.breakpoints import Breakpoint, FunctionName, KernelName, SourceLine
from symd.model.contexts import Context, Load, Segment, Unload
from symd.model.watches import (
    BreakpointChange,
    ChangeAcknowledged,
    LoadBegan,
    LoadEnded,
    ModuleAdded,
    PlacesGone,
    Resolved,
    Watching,
)
from symd.store import Store
from tests.client.test_module_watch import HEAP, RAYCAST, VADD, Served, at_kernel, taken

LINE = Breakpoint("line", SourceLine("vadd.cl", 8))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    with made.stack:
        yield made


@pytest.fixture(params=["engine", "client"])
def symd(request: pytest.FixtureRequest, served: Served) -> Symbolizer:
    engine, client, _ = served.begin()
    return engine if request.param == "engine" else client


def kinds(events: list[Any]) -> list[type]:
    return [type(each) for each in events]


def test_one_context_sees_its_own_module_added_loaded_moved_and_unloaded(symd: Symbolizer) -> None:
    """Of a module that two contexts load; its bytes come after the first load, and what it answers then."""
    mine, other = (symd.contexts.add(Context("host", number, address_bits=48)) for number in (1, 2))
    with Engine(Store.temporary()) as elsewhere:
        digest = elsewhere.add(VADD).sha256
        (place, *more) = elsewhere.locate(digest, "vadd.cl:8").locations
        kernel = elsewhere.module(digest).objects[0].kernels[0]
    assert not more
    distance = place.section_offset - kernel.offset
    size = kernel.size or 0

    def load(time: int, address: int) -> Load:
        return Load(digest, time, (Segment(DeviceAddress(address), size, ByKernel("vadd", KernelOffset(0))),), key="k")

    with symd.watch([LINE], contexts=[mine]) as watch:
        assert taken(watch, 1) == [Watching()]
        symd.contexts.record(other, [load(5, HEAP + 0x90000)])
        symd.contexts.record(mine, [load(10, HEAP)])
        early = taken(watch, 1)
        symd.add(VADD)
        symd.add(RAYCAST)
        late = taken(watch, 1)
        symd.contexts.record(mine, [load(20, HEAP + 0x10000)])
        symd.contexts.record(other, [Unload("k", 25)])
        symd.contexts.record(mine, [Unload("k", 30)])
        rest = taken(watch, 6)
    assert kinds(early) == [LoadBegan]
    assert kinds(late) == [Resolved]
    assert kinds(rest) == [LoadEnded, PlacesGone, LoadBegan, Resolved, LoadEnded, PlacesGone]
    assert late[0].answer.locations[0].device_addresses == (HEAP + distance,)
    assert rest[1].answer == late[0].answer
    assert rest[1].unloaded == rest[0].loaded
    assert rest[0].loaded.load.unload_time == 20
    assert rest[3].answer.locations[0].device_addresses == (HEAP + 0x10000 + distance,)
    assert rest[5].answer == rest[3].answer
    assert {each.loaded.context.id for each in (*early, *late, rest[0], rest[2])} == {mine}
    assert [bool(each.resume_token) for each in rest] == [False, True] * 3


def test_what_is_loaded_in_a_context_is_told_first(symd: Symbolizer) -> None:
    digest = symd.add(VADD).sha256
    mine, other = (symd.contexts.add(Context("host", number)) for number in (1, 2))
    symd.contexts.record(mine, [Load(digest, 1, key="went", unload_time=2), Load(digest, 3, key="here")])
    symd.contexts.record(other, [Load(digest, 4, key="there")])
    with symd.watch([LINE], contexts=[mine]) as watch:
        events = taken(watch, 3)
    assert kinds(events) == [LoadBegan, Resolved, Watching]
    assert events[0].loaded.load.key == "here"


def test_a_load_that_has_ended_is_told_with_its_end(symd: Symbolizer) -> None:
    """The end is told as well, with the places that went."""
    digest, name = symd.add(VADD).sha256, symd.contexts.add(Context("host", 1))
    with symd.watch([LINE], only_new=True) as watch:
        taken(watch, 1)
        symd.contexts.record(name, [Load(digest, 10, (at_kernel(HEAP, "vadd"),), key="k", unload_time=20)])
        began, answered, ended, gone = taken(watch, 4)
    assert kinds([began, answered, ended, gone]) == [LoadBegan, Resolved, LoadEnded, PlacesGone]
    assert [each.load.unload_time for each in (began.loaded, answered.loaded, ended.loaded, gone.unloaded)] == [20] * 4
    assert gone.answer == answered.answer


def test_a_hundred_breakpoints_come_and_go_in_one_watch(symd: Symbolizer) -> None:
    """Each is answered for what is there before it is acknowledged, and after it went by nothing."""
    digest, name = symd.add(VADD).sha256, symd.contexts.add(Context("host", 1))
    symd.contexts.record(name, [Load(digest, 1, (at_kernel(HEAP, "vadd"),), key="k")])
    wheres = (SourceLine("vadd.cl", 8), KernelName("vadd"), FunctionName("vadd"), ByKernel("vadd", KernelOffset(0x10)))
    tokens = []
    with symd.watch(only_new=True) as watch:
        taken(watch, 1)
        for number in range(100):
            one = str(number)
            watch.add(Breakpoint(one, wheres[number % 4]))
            there, loaded, added = taken(watch, 3)
            assert [(each.id, each.digest) for each in (there, loaded)] == [(one, digest)] * 2
            assert there.answer == symd.locate(digest, wheres[number % 4])
            assert (there.loaded, loaded.loaded.load.key) == (None, "k")
            assert all(each.device_addresses for each in loaded.answer.locations)
            assert added == ChangeAcknowledged((one,), ())
            tokens.append(added.resume_token)
        watch.remove(*map(str, range(99)), "nobody")
        assert taken(watch, 1) == [ChangeAcknowledged((), (*map(str, range(99)), "nobody"))]
        symd.contexts.record(name, [Unload("k", 9)])
        ended, gone = taken(watch, 2)
        assert (type(ended), gone.id) == (LoadEnded, "99")
        watch.add(LINE)
        watch.remove("99")
        assert [each.id for each in taken(watch, 1)] == ["line"]
        assert taken(watch, 2) == [ChangeAcknowledged(("line",), ()), ChangeAcknowledged((), ("99",))]
    assert "" not in tokens


def test_a_breakpoint_stands_in_its_contexts_alone(symd: Symbolizer) -> None:
    digest = symd.add(VADD).sha256
    mine, other = (symd.contexts.add(Context("host", number)) for number in (1, 2))
    here = Breakpoint("here", SourceLine("vadd.cl", 8), contexts=(mine,))
    with symd.watch([here]) as watch:
        assert kinds(taken(watch, 2)) == [ModuleAdded, Watching]
        symd.contexts.record(other, [Load(digest, 1, key="other")])
        symd.contexts.record(mine, [Load(digest, 2, key="mine")])
        events = taken(watch, 3)
    assert kinds(events) == [LoadBegan, LoadBegan, Resolved]
    assert events[2].loaded.load.key == "mine"


def test_what_was_acknowledged_is_watched_after_a_token(symd: Symbolizer) -> None:
    digest, name = symd.add(VADD).sha256, symd.contexts.add(Context("host", 1))
    with symd.watch() as watch:
        taken(watch, 2)
        watch.add(LINE)
        _, acknowledged = taken(watch, 2)
    symd.contexts.record(name, [Load(digest, 1, key="k")])
    with symd.watch([LINE], resume_token=acknowledged.resume_token) as watch:
        assert kinds(taken(watch, 3)) == [Watching, LoadBegan, Resolved]


@pytest.mark.parametrize(
    ("added", "error"),
    [(LINE, BadQuery), (Breakpoint("x", SourceLine("a.cl", 1), contexts=("ab" * 16,)), ContextNotFound)],
)
def test_a_change_that_cannot_be_made_is_told_and_the_watch_goes_on(
    symd: Symbolizer, added: Breakpoint, error: type[Exception]
) -> None:
    digest, name = symd.add(VADD).sha256, symd.contexts.add(Context("host", 1))
    with symd.watch([LINE], only_new=True) as watch:
        taken(watch, 1)
        watch.add(replace(LINE, id="new"), added)
        (refused,) = taken(watch, 1)
        assert isinstance(refused, ChangeAcknowledged)
        assert isinstance(refused.failure, error)
        assert (refused.added, refused.removed) == ((), ())
        symd.contexts.record(name, [Load(digest, 1, key="k")])
        _, resolved = taken(watch, 2)
        assert isinstance(resolved, Resolved)
        assert resolved.id == LINE.id  # and "new" is not watched
        watch.add(replace(LINE, id="new"))
        assert taken(watch, 3)[-1] == ChangeAcknowledged(("new",))


def test_what_a_refused_change_would_remove_stays(symd: Symbolizer) -> None:
    digest, name = symd.add(VADD).sha256, symd.contexts.add(Context("host", 1))
    with symd.watch([LINE], only_new=True) as watch:
        taken(watch, 1)
        strange = Breakpoint("x", SourceLine("a.cl", 1), contexts=("ab" * 16,))
        watch._change(BreakpointChange((strange,), (LINE.id,)))
        (refused,) = taken(watch, 1)
        assert isinstance(refused, ChangeAcknowledged)
        assert isinstance(refused.failure, ContextNotFound)
        symd.contexts.record(name, [Load(digest, 1, key="k")])
        assert kinds(taken(watch, 2)) == [LoadBegan, Resolved]


def test_a_change_that_says_nothing_is_refused_where_it_is_made(symd: Symbolizer) -> None:
    with symd.watch() as watch:
        with pytest.raises(BadQuery):
            watch.add("vadd.cl:8")  # type: ignore[arg-type] # what it refuses
        assert taken(watch, 1) == [Watching()]
