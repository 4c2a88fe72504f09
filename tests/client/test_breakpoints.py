"""Breakpoints and names over the channel: the answers of the engine, and watches that fire, end and stay bounded."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

from symd import Client
from symd.config import Limits
from symd.engine.engine import Engine
from symd.errors import BadQuery, LimitExceeded, ModuleNotFound, ObjectNotFound, Unavailable
from symd.model.breakpoints import Breakpoint, Refusal, SourceLine
from symd.model.names import Match, NameKind, NameQuery
from symd.model.sources import PathRule
from symd.model.watches import Resolved, Watch, Watching
from symd.rpc.wire.breakpoints import to_breakpoint
from symd.server.config import Config
from symd.server.listening import listening
from symd.server.server import Daemon, build_daemon
from symd.server.work_queues import Work
from symd.store import Store
from symd.v1.breakpoint_service_pb2 import ResolveBreakpointRequest
from symd.v1.breakpoint_service_pb2_grpc import BreakpointServiceStub
from symd.v1.name_service_pb2 import FindNamesRequest
from symd.v1.name_service_pb2_grpc import NameServiceStub

SAMPLES = Path(__file__).parents[2] / "samples/kernels/bin"
WATCHES = 4


@dataclass
class Both:
    engine: Engine
    client: Client
    daemon: Daemon
    address: str

    def idle(self) -> bool:
        """Whether no watch is left, which may take a moment after one is cancelled."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            if not self.daemon.work_queues[Work.WATCH].running and not list(
                self.engine.store.module_log._subscriptions
            ):
                return True
            time.sleep(0.01)
        return False


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Both]:
    config = Config(
        limits=Limits(), store=tmp_path / "store", address=f"unix:{tmp_path}/s", watches=WATCHES, workers=4, grace=1.0
    )
    with Engine(Store(config.store, config.limits, durable=False), config.limits) as engine:
        daemon = build_daemon(engine, config)
        with listening(daemon.server, config.address) as address, Client(address, timeout=30) as client:
            daemon.server.start()
            yield Both(engine, client, daemon, address)
            daemon.stop(1)


def sample(name: str) -> bytes:
    return (SAMPLES / name).read_bytes()


@pytest.mark.parametrize(
    "name", ["blur/dg2-opt.dbg", "particles/pvc-O0.dbg", "vadd/igc2-dg2-opt.zebin", "vadd/opt.spv"]
)
def test_every_line_and_name_is_answered_as_in_process(both: Both, name: str) -> None:
    digest = both.client.add(sample(name)).sha256
    source = f"{name.partition('/')[0]}.cl"
    for line in range(1, 60, 3):
        for every in (False, True):
            wanted = SourceLine(source, line)
            assert both.client.locate(digest, wanted, every_address=every) == both.engine.locate(
                digest, wanted, every_address=every
            )
    rules = [PathRule("/tmp/symd-opencl", "/home/me")]
    for file in ("no/such.cl", "/home/me/" + source):
        wanted = SourceLine(file, 5)
        mine = both.engine.locate(digest, wanted, rules=rules)
        assert both.client.locate(digest, wanted, rules=rules) == mine
    for wanted in (
        NameQuery("*", Match.GLOB),
        NameQuery("b", Match.PREFIX),
        NameQuery("*", Match.GLOB, frozenset({NameKind.FILE})),
    ):
        assert list(both.client.names(digest, wanted)) == list(both.engine.names(digest, wanted))


def test_what_cannot_be_asked_is_refused_alike(both: Both) -> None:
    digest = both.client.add(sample("vadd/dg2-opt.dbg")).sha256
    for asked in (both.engine, both.client):
        with pytest.raises(ModuleNotFound):
            asked.locate("0" * 64, SourceLine("a.cl", 1))
        with pytest.raises(ObjectNotFound):
            asked.locate(digest, SourceLine("vadd.cl", 1), "nowhere")
        with pytest.raises(BadQuery):
            asked.names(digest, NameQuery(""))
        with pytest.raises(BadQuery):
            asked.watch([Breakpoint("a", SourceLine("a.cl", 1)), Breakpoint("a", SourceLine("b.cl", 1))])
    with pytest.raises(BadQuery):
        both.client.locate(digest, SourceLine("vadd.cl", 0))


def test_places_and_names_come_in_pages(both: Both) -> None:
    digest = both.client.add(sample("blur/dg2-opt.dbg")).sha256
    with grpc.insecure_channel(both.address, options=[("grpc.default_authority", "localhost")]) as channel:
        breakpoints, names = BreakpointServiceStub(channel), NameServiceStub(channel)
        asked = to_breakpoint(Breakpoint("", SourceLine("blur.cl", 8)))
        request = ResolveBreakpointRequest(module=f"modules/{digest}", breakpoint=asked, page_size=3)
        first = breakpoints.ResolveBreakpoint(request)
        request.page_token = first.next_page_token
        second = breakpoints.ResolveBreakpoint(request)
        assert (len(first.locations), len(second.locations), second.next_page_token) == (3, 1, "")
        request.breakpoint.path_rules.add(prefix="/tmp", replacement="/src")
        with pytest.raises(grpc.RpcError) as refused:
            breakpoints.ResolveBreakpoint(request)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        find = FindNamesRequest(module=f"modules/{digest}", pattern="*", match=3, page_size=2)
        first = names.FindNames(find)
        find.page_token = first.next_page_token
        second = names.FindNames(find)
        assert [each.name for each in (*first.items, *second.items)] == ["blur", "at", "/tmp/symd-opencl/blur.cl"]
        find.match = 99
        with pytest.raises(grpc.RpcError) as refused:
            names.FindNames(find)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def heard(watch: Watch) -> Resolved | Watching:
    """The next answer, or that what was there is told."""
    return next(event for event in watch if isinstance(event, (Resolved, Watching)))


def test_a_pending_breakpoint_fires_when_a_module_with_its_line_comes(both: Both) -> None:
    with both.client.watch([Breakpoint("one", SourceLine("vadd.cl", 8))]) as watch:
        assert heard(watch) == Watching()
        for name in ("vadd/dg2-opt.dbg", "vadd/skl-O0.dbg", "vadd/pvc-O0.dbg"):
            digest = both.client.add(sample(name)).sha256
            event = heard(watch)
            assert isinstance(event, Resolved)
            assert event.answer == both.engine.locate(event.digest, SourceLine("vadd.cl", 8))
            assert event.digest == digest
            assert event.answer.locations


def test_what_is_there_is_looked_at_first_and_each_module_once(both: Both) -> None:
    first = both.client.add(sample("vadd/dg2-opt.dbg")).sha256
    both.client.add(sample("blur/dg2-opt.dbg"))
    pending = [Breakpoint("v", SourceLine("vadd.cl", 8)), Breakpoint("end", SourceLine("vadd.cl", 999))]
    with both.client.watch(pending) as watch:
        events = [heard(watch) for _ in range(3)]
        assert [(event.id, event.digest) for event in events[:2]] == [("v", first), ("end", first)]
        assert events[1].answer.refusal is Refusal.PAST_END
        assert events[2] == Watching()
        both.client.add(sample("vadd/dg2-opt.dbg"))
        second = both.client.add(sample("vadd/skl-O0.dbg")).sha256
        assert [heard(watch).digest for _ in range(2)] == [second, second]
    with both.client.watch(pending, only_new=True) as watch:
        assert heard(watch) == Watching()


def test_overlapping_watches_hear_alike_and_end_clean(both: Both) -> None:
    watches = [both.client.watch([Breakpoint(str(n), SourceLine("vadd.cl", 8))]) for n in range(WATCHES)]
    assert [heard(watch) for watch in watches] == [Watching()] * WATCHES
    watches[0].close()
    digest = both.client.add(sample("vadd/dg2-opt.dbg")).sha256
    assert [heard(watch).digest for watch in watches[1:]] == [digest] * (WATCHES - 1)
    assert list(watches[0]) == []
    enders = [threading.Thread(target=watch.close) for watch in watches[1:]]
    for ender in enders:
        ender.start()
    assert [list(watch) for watch in watches[1:]] == [[]] * (WATCHES - 1)
    assert both.idle()
    with both.client.watch([Breakpoint("again", SourceLine("vadd.cl", 8))]) as watch:
        assert heard(watch).id == "again"


def test_cancelling_while_modules_arrive_leaves_nothing(both: Both) -> None:
    names = ["skl-O0", "skl-opt", "dg2-O0", "dg2-opt", "pvc-O0", "pvc-opt", "tgllp-O0", "tgllp-opt"]
    uploading = threading.Thread(target=lambda: [both.client.add(sample(f"vadd/{name}.dbg")) for name in names])
    uploading.start()
    while uploading.is_alive():
        with both.client.watch([Breakpoint("v", SourceLine("vadd.cl", 8))]) as watch:
            heard(watch)
    uploading.join()
    assert both.idle()


def test_too_many_watches_are_refused_and_uploads_go_on(both: Both) -> None:
    pending = [Breakpoint("v", SourceLine("vadd.cl", 8))]
    watches = [both.client.watch(pending) for _ in range(WATCHES)]
    assert [heard(watch) for watch in watches] == [Watching()] * WATCHES
    with pytest.raises(LimitExceeded, match="4 watches are open"):
        next(both.client.watch(pending))
    both.client.add(sample("vadd/dg2-opt.dbg"))
    for watch in watches:
        assert heard(watch).id == "v"
        watch.close()
    assert both.idle()


def test_a_slow_reader_holds_nobody_up(both: Both) -> None:
    """A watch whose events nobody reads: uploads go on, and a quick one hears of each."""
    pending = [Breakpoint(str(number), SourceLine("vadd.cl", 8), every_address=True) for number in range(2000)]
    slow = both.client.watch(pending)
    assert heard(slow) == Watching()
    with both.client.watch([Breakpoint("quick", SourceLine("vadd.cl", 8))]) as quick:
        assert heard(quick) == Watching()
        for name in ("skl-O0", "skl-opt", "dg2-O0", "dg2-opt", "pvc-O0"):
            digest = both.client.add(sample(f"vadd/{name}.dbg")).sha256
            assert heard(quick).digest == digest
    assert len([heard(slow) for _ in range(5 * len(pending))]) == 5 * len(pending)
    slow.close()
    assert both.idle()


def test_a_stopping_daemon_ends_its_watches_at_once(both: Both) -> None:
    watch = both.client.watch([Breakpoint("v", SourceLine("vadd.cl", 8))])
    assert heard(watch) == Watching()
    threading.Thread(target=both.daemon.stop, args=(20,)).start()
    with pytest.raises(Unavailable, match="stopping"):  # what the grace ends is told something else
        heard(watch)


def test_an_event_of_many_places_comes_in_pieces_and_arrives_whole(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("symd.rpc.wire.breakpoints.LOCATIONS", 3)
    digest = both.client.add(sample("blur/dg2-opt.dbg")).sha256
    with both.client.watch([Breakpoint("b", SourceLine("blur.cl", 8))]) as watch:
        assert heard(watch).answer == both.engine.locate(digest, SourceLine("blur.cl", 8))
        assert heard(watch) == Watching()
