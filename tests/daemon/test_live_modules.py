"""Programs' modules in real daemons: two over one store, one killed in the midst, and nothing lost or told twice."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path

import pytest

from symd import Client
from symd.capture import forward
from symd.capture.daemon_sink import DaemonSink
from symd.capture.folder_sink import FolderSink
from symd.errors import Unavailable
from symd.model.breakpoints import Breakpoint, SourceLine
from symd.model.captures import (
    CaptureApi,
    CapturedProcess,
    CaptureEvent,
    CaptureWay,
    ModuleForm,
    ModuleLoaded,
    ModuleUnloaded,
    ProcessEnded,
)
from symd.model.watches import LoadBegan, LoadEnded, ModuleAdded, ModuleEvent, Resolved, Watch, Watching
from tests.daemon.processes import kill, serving

SAMPLE = (Path(__file__).parents[2] / "samples/kernels/bin/vadd/skl-O0.dbg").read_bytes()
HEAP = 0xFFFF8000_FFBF0000
LONG = 60.0
"""Seconds after which an event that does not come is given up."""
LOADS = 40
PROGRAM = CapturedProcess("host", 4711, 1234, ("app",))


@contextmanager
def another(folder: Path) -> Iterator[Client]:
    """A second daemon over the same store, at an address of its own."""
    address = f"unix:{folder}/other.sock"
    command = [sys.executable, "-m", "symd", "serve", "--address", address, "--store", str(folder / "store")]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
        Client(address, timeout=LONG) as client,
    ):
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield client
        finally:
            kill(process)


def story() -> list[CaptureEvent]:
    """A program that loads a few modules often, unloads every other one, and ends."""
    events: list[CaptureEvent] = []
    for number in range(LOADS):
        data = SAMPLE + bytes(8 * (number % 5))
        events.append(
            ModuleLoaded(
                PROGRAM, CaptureApi.LEVEL_ZERO, CaptureWay.PRELOAD, number, 10 * number, ModuleForm.DEBUG_DATA, data,
                "gpu 0", ("vadd",), {"vadd": HEAP + 0x10000 * number},
            )
        )  # fmt: skip
        if number % 2:
            events.append(ModuleUnloaded(PROGRAM, CaptureApi.LEVEL_ZERO, number, 10 * number + 5))
    return [*events, ProcessEnded(PROGRAM, 10 * LOADS)]


def collected(client: Client, position: str, found: list[ModuleEvent], count: int) -> None:
    """Follow until ``count`` events of modules are known, or the daemon is gone."""
    watch = client.watch(resume_token=position)
    timer = threading.Timer(LONG, watch.close)
    timer.start()
    with suppress(Unavailable), watch:
        for event in watch:
            if not isinstance(event, Watching):
                found.append(event)
            if len(found) >= count:
                break
    timer.cancel()


def test_a_watch_and_a_sink_survive_a_daemon_that_is_killed(tmp_path: Path) -> None:
    """One daemon is killed while it is told; what tells and what follows go on at the other."""
    events = story()
    expected = 5 + LOADS + LOADS
    found: list[ModuleEvent] = []
    with serving(tmp_path) as first, another(tmp_path) as second:
        with first.client() as client:
            begin = next(client.watch()).resume_token
            following = threading.Thread(target=collected, args=(client, begin, found, expected))
            following.start()
            sink = DaemonSink(client)
            for event in events[: LOADS // 2]:
                sink.take(event)
            while not found:
                following.join(0.01)
            kill(first.process)
            following.join(LONG)
        assert 0 < len(found) < expected
        other = DaemonSink(second)
        for event in events[LOADS // 4 :]:  # some were told already
            other.take(event)
        collected(second, found[-1].resume_token, found, expected)
        once = list(found)
        again: list[ModuleEvent] = []
        collected(second, begin, again, expected)
        (record,) = second.contexts.all()
        loads = [load for _, load in second.contexts.loads(record.id)]
    assert [each.resume_token for each in once] == [each.resume_token for each in again]
    assert len({each.resume_token for each in once}) == expected
    kinds = [type(each) for each in once]
    assert [kinds.count(kind) for kind in (ModuleAdded, LoadBegan, LoadEnded)] == [5, LOADS, LOADS]
    assert [(load.time, load.unload_time) for load in loads] == [
        (10 * number, 10 * number + 5 if number % 2 else 10 * LOADS) for number in range(LOADS)
    ]


@contextmanager
def told(address: str) -> Iterator[DaemonSink]:
    with Client(address, timeout=LONG) as client:
        yield DaemonSink(client)


def test_what_a_program_loads_while_its_daemon_is_away_is_sent_later_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder keeps it: nothing is lost to a daemon that is killed half-way, and what that one knew is not told twice."""
    monkeypatch.setattr(forward, "_PATIENCE_SECONDS", LONG)
    events, captures = story(), tmp_path / "captures"
    with FolderSink(captures) as folder:
        with serving(tmp_path) as daemon:
            address = daemon.address
            forwarder = forward.Forwarder(captures, address, lambda: told(address))
            for event in events[: LOADS // 2]:
                folder.take(event)
                forwarder.wake()
            with daemon.client() as client:
                while not list(client.contexts.all()):
                    forwarder.wake()
            kill(daemon.process)
        for event in events[LOADS // 2 :]:
            folder.take(event)
        sent = forwarder.finish()
    assert sent.left
    assert isinstance(sent.error, Unavailable)
    with serving(tmp_path) as daemon, daemon.client() as client:
        later = forward.Forwarder(captures, address, lambda: told(address)).finish()
        assert not later.left
        assert later.refused == ()
        (record,) = client.contexts.all()
        loads = [load for _, load in client.contexts.loads(record.id)]
        assert len(list(client.modules())) == 5
    assert [(load.time, load.unload_time) for load in loads] == [
        (10 * number, 10 * number + 5 if number % 2 else 10 * LOADS) for number in range(LOADS)
    ]


def fired(watch: Watch, count: int) -> list[Resolved]:
    timer = threading.Timer(LONG, watch.close)
    timer.start()
    found = list(islice((each for each in watch if isinstance(each, Resolved)), count))
    timer.cancel()
    return found


def test_breakpoints_at_both_daemons_fire_when_a_program_loads_their_module(tmp_path: Path) -> None:
    pending = [Breakpoint("b", SourceLine("vadd.cl", 8))]
    with ExitStack() as stack:
        daemon = stack.enter_context(serving(tmp_path))
        clients = [stack.enter_context(daemon.client()), stack.enter_context(another(tmp_path))]
        watches = [stack.enter_context(client.watch(pending)) for client in clients]
        assert [next(watch) for watch in watches] == [Watching()] * 2
        sink = DaemonSink(clients[0])
        for event in story()[:1]:
            sink.take(event)
        heard = [fired(watch, 2) for watch in watches]
    assert heard[0] == heard[1]
    added, loaded = heard[0]
    assert added.loaded is None
    assert loaded.loaded is not None
    assert loaded.loaded.context.context.process == PROGRAM.process
    places = [(each.section_offset, each.device_addresses) for each in loaded.answer.locations]
    assert places
    assert {len(addresses) for _, addresses in places} == {1}
