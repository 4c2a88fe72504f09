"""Of several daemons one takes calls and never answers, though it says that it serves: clients without a timeout get their answers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from symd import AsyncClient, Client
from symd.errors import DeadlineExceeded, ServerUnavailable
from symd.server.config import Config, ListenConfig
from symd.server.listening import listening
from symd.server.server import build_daemon
from tests.impatient import be_impatient
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
    be_impatient(monkeypatch, perAttemptRecvTimeout="0.5s")
    with sound_daemon() as sound, hung_daemon() as (other, hung):
        yield f"ipv4:{sound},{other}", hung


def ask(client: Any) -> Any:
    return client.missing([DIGEST])


def until_asked(hung: Hung) -> Iterator[None]:
    """Twice where calls go to each in turn, and more where they do not."""
    deadline = time.monotonic() + 60
    while "FindMissingModules" not in hung.asked:
        assert time.monotonic() < deadline, hung.asked
        yield


def test_a_call_goes_on_at_another_daemon(daemons: tuple[str, Hung]) -> None:
    address, hung = daemons
    with Client(address) as client:
        for _ in until_asked(hung):
            ask(client)


def test_the_same_awaited(daemons: tuple[str, Hung]) -> None:
    address, hung = daemons

    async def asked() -> None:
        async with AsyncClient(address) as client:
            for _ in until_asked(hung):
                await ask(client)

    asyncio.run(asked())


def test_daemons_that_all_hang_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    be_impatient(monkeypatch, perAttemptRecvTimeout="0.1s")
    with (
        hung_daemon() as (one, _),
        hung_daemon() as (two, _),
        Client(f"ipv4:{one},{two}") as client,
        pytest.raises(ServerUnavailable, match="5 times a daemon took the call and said nothing"),
    ):
        ask(client)


def test_the_callers_own_timeout_ends_a_call_as_it_says() -> None:
    with hung_daemon() as (one, _), hung_daemon() as (two, _):
        for address in (one, f"ipv4:{one},{two}"):
            for call in (ask, lambda client: list(client.lines(DIGEST)), lambda client: client.add(GOOD)):
                with Client(address, timeout=0.3) as client, pytest.raises(DeadlineExceeded, match=r"within 0\.3 s"):
                    call(client)


def test_what_is_not_asked_twice_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deleting says something else the second time. On a busy machine a call may come to the daemon no sooner than its time is over."""
    be_impatient(monkeypatch, perAttemptRecvTimeout="0.1s")
    with hung_daemon() as (address, hung):
        calls, timeout = 0, 1.0
        while not hung.asked and timeout < 200:
            with Client(f"ipv4:{address}", timeout=timeout) as client, pytest.raises(DeadlineExceeded):
                client.remove(DIGEST)
            calls, timeout = calls + 1, 10 * timeout
        assert set(hung.asked) == {"DeleteModule"}
        assert len(hung.asked) <= calls
