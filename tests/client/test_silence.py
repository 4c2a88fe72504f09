"""Of several daemons one takes calls and never answers, though it says that it serves: clients without a timeout get their answers."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from symd import AsyncClient, Client
from symd.errors import DeadlineExceeded, ServerUnavailable
from symd.rpc.retry import SILENT_ATTEMPTS, Attempt
from symd.rpc.stall_timer import StallTimer
from symd.server.addresses import listening
from symd.server.config import Config, ListenConfig
from symd.server.server import build_daemon
from tests.server.fakes import DIGEST, GOOD, FakeEngine


class Hung(grpc.GenericRpcHandler):
    """Answers whether it serves, and nothing else."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def service(self, details: Any) -> Any:
        if details.method.endswith("/Check"):
            return grpc.unary_unary_rpc_method_handler(lambda _request, _context: b"\x08\x01")
        self.asked.append(details.method.rpartition("/")[2])
        return grpc.stream_stream_rpc_method_handler(self._wait)

    def _wait(self, _requests: object, context: grpc.ServicerContext) -> Iterator[bytes]:
        left = threading.Event()
        context.add_callback(left.set)
        left.wait(60)
        return iter(())


@contextmanager
def hung_daemon() -> Iterator[tuple[str, Hung]]:
    """(its address, what it was asked)."""
    hung = Hung()
    server = grpc.server(futures.ThreadPoolExecutor(32), handlers=[hung])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}", hung
    finally:
        server.stop(None).wait()


@contextmanager
def sound_daemon() -> Iterator[str]:
    config = Config(store=Path("/nonexistent"), workers=4, streams=3, grace=1.0, listen=ListenConfig(insecure=True))
    engine = FakeEngine()
    engine.add(GOOD)
    daemon = build_daemon(engine, config)
    with listening(daemon.server, "127.0.0.1:0", daemon.authenticator) as address:
        daemon.server.start()
        try:
            yield address
        finally:
            daemon.stop(0.2)


@pytest.fixture
def daemons(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Hung]]:
    """The address of two daemons of which one hangs, and what that one was asked."""
    monkeypatch.setattr("symd.rpc.retry.SILENT_SECONDS", 0.5)
    with sound_daemon() as sound, hung_daemon() as (other, hung):
        yield f"ipv4:{sound},{other}", hung


COLUMN = list(range(1 << 17))
"""More addresses than go in one call."""
ASKED: dict[str, Callable[[Any], Any]] = {
    "FindMissingModules": lambda client: client.missing([DIGEST]),
    "GetLineTable": lambda client: client.lines(DIGEST),
    "UploadModule": lambda client: client.add(GOOD + os.urandom(8)),
    "SymbolizeStream": lambda client: client.symbolize_column(DIGEST, COLUMN),
}


def until_asked(hung: Hung, method: str) -> Iterator[None]:
    """Twice where calls go to each in turn, and more where they do not."""
    deadline = time.monotonic() + 60
    while method not in hung.asked:
        assert time.monotonic() < deadline, hung.asked
        yield


@pytest.mark.parametrize("method", ASKED)
def test_a_call_goes_on_at_another_daemon(daemons: tuple[str, Hung], method: str) -> None:
    address, hung = daemons
    with Client(address) as client:
        for _ in until_asked(hung, method):
            answer = ASKED[method](client)
            assert method != "GetLineTable" or list(answer)


@pytest.mark.parametrize("method", ASKED)
def test_the_same_awaited(daemons: tuple[str, Hung], method: str) -> None:
    address, hung = daemons

    async def ask() -> None:
        async with AsyncClient(address) as client:
            for _ in until_asked(hung, method):
                answer = ASKED[method](client)
                assert (
                    [each async for each in answer] if isinstance(answer, AsyncIterator) else await answer is not None
                )

    asyncio.run(ask())


def test_daemons_that_all_hang_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("symd.rpc.retry.SILENT_SECONDS", 0.1)
    with hung_daemon() as (one, _), hung_daemon() as (two, _), Client(f"ipv4:{one},{two}") as client:
        with pytest.raises(ServerUnavailable, match=f"{SILENT_ATTEMPTS} times a daemon took the call"):
            client.missing([DIGEST])
        with pytest.raises(ServerUnavailable, match=r"the last time for 0\.8 s"):
            list(client.lines(DIGEST))


def test_the_callers_own_timeout_ends_a_call_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("symd.rpc.retry.SILENT_SECONDS", 0.1)
    with hung_daemon() as (one, _), hung_daemon() as (two, _):
        for timeout, ask in [(0.05, ASKED["FindMissingModules"]), (0.5, lambda client: list(client.lines(DIGEST)))]:
            with (
                Client(f"ipv4:{one},{two}", timeout=timeout) as client,
                pytest.raises(DeadlineExceeded, match=f"within {timeout} s"),
            ):
                ask(client)


def test_what_is_not_asked_twice_waits() -> None:
    """Deleting says something else the second time. On a busy machine a call may come to the daemon no sooner than its time is over."""
    with hung_daemon() as (address, hung):
        calls, timeout = 0, 1.0
        while not hung.asked and timeout < 200:
            with Client(f"ipv4:{address}", timeout=timeout) as client, pytest.raises(DeadlineExceeded):
                client.remove(DIGEST)
            calls, timeout = calls + 1, 10 * timeout
        assert set(hung.asked) == {"DeleteModule"}
        assert len(hung.asked) <= calls


class Clock:
    """Time that a test moves."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_time_that_the_reader_of_a_stream_takes_is_no_silence_of_the_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("symd.rpc.stall_timer.time", clock)
    ended: list[bool] = []
    attempt = Attempt(None, 0.01)
    for _ in StallTimer(attempt).answers(range(3), lambda: ended.append(True)):
        clock.now += 100
        time.sleep(0.05)  # the watcher looks meanwhile, many times
    assert not ended
    assert not attempt.was_silent


def test_what_is_sent_counts_as_something_that_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("symd.rpc.stall_timer.time", clock)
    ended = threading.Event()
    silence = StallTimer(Attempt(None, 10.0))
    with silence.watched(ended.set):
        for _ in silence.requests(range(5)):
            clock.now += 9.0
    assert not ended.is_set()
