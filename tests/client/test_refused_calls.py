"""A daemon takes so many calls at a time on one connection, and refuses further ones unseen (REFUSED_STREAM): clients send those again."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from symd import AsyncClient, Client
from symd.errors import NotFound, ServerUnavailable, Unavailable
from symd.model.grabs import GrabRequest
from tests.server.http2 import (
    ACK,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    frame,
    literal,
)
from tests.soak.daemon import serving

CUBIN = (Path(__file__).parents[2] / "samples/cuda/bin/raycast.sm_100.lines.cubin").read_bytes()
KERNEL = "_Z7raycastPfi6float3"
DIGEST = "0" * 64
HEADER = 9
"""Bytes of a frame's header."""
REFUSED_STREAM = (7).to_bytes(4, "big")
OK_200 = b"\x88"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A daemon as a user starts it, with the limits that it has by itself."""
    with serving(tmp_path_factory.mktemp("daemon")) as found:
        yield found.address


def test_thousands_of_calls_at_once_are_answered(daemon: str) -> None:
    async def asked() -> list[str | None]:
        async with AsyncClient(daemon, timeout=60) as client:
            module = await client.add(CUBIN)
            queries = [f"{KERNEL}+{16 * (number % 20)}" for number in range(3000)]
            answers = await asyncio.gather(*(client.symbolize_one(module, query) for query in queries))
            return [answer.kernel for answer in answers]

    assert asyncio.run(asked()) == [KERNEL] * 3000


def test_hundreds_of_threads_are_answered(daemon: str) -> None:
    with Client(daemon, timeout=60) as client, ThreadPoolExecutor(300) as threads:
        module = client.add(CUBIN)
        answers = list(threads.map(lambda _: client.symbolize_one(module, f"{KERNEL}+0"), range(3000)))
    assert [answer.kernel for answer in answers] == [KERNEL] * 3000


@pytest.fixture
def refusing() -> Iterator[Callable[[int], tuple[str, list[int]]]]:
    """Starts a server that refuses so many calls unseen and answers NOT_FOUND to those that follow: its address, and the calls that came."""
    with ExitStack() as stack:

        def start(refusals: int) -> tuple[str, list[int]]:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            came: list[int] = []
            threading.Thread(target=_serve, args=(listener, refusals, came), daemon=True).start()
            return f"127.0.0.1:{listener.getsockname()[1]}", came

        yield start


def _serve(listener: socket.socket, refusals: int, came: list[int]) -> None:
    taken, _ = listener.accept()
    with taken, taken.makefile("rb") as read:
        taken.sendall(frame(SETTINGS, 0, 0) + frame(SETTINGS, ACK, 0))
        read.read(len(PREFACE))
        while header := read.read(HEADER):
            body = read.read(int.from_bytes(header[:3], "big"))
            kind, flags, stream = header[3], header[4], int.from_bytes(header[5:], "big")
            if kind == HEADERS:
                came.append(stream)
                refused = len(came) <= refusals
                taken.sendall(frame(RST_STREAM, 0, stream, REFUSED_STREAM) if refused else _not_found(stream))
            elif kind == PING and not flags & ACK:
                taken.sendall(frame(PING, ACK, 0, body))


def _not_found(stream: int) -> bytes:
    """An answer of nothing but its status."""
    fields = OK_200 + literal("content-type", "application/grpc") + literal("grpc-status", "5")
    return frame(HEADERS, END_STREAM | END_HEADERS, stream, fields)


ASKED: list[Callable[[Any], Any]] = [
    lambda client: client.missing([DIGEST]),
    lambda client: client.remove(DIGEST),
    lambda client: client.contexts.remove("0" * 32),
    lambda client: client.object_data(DIGEST, ""),
    lambda client: client.grab(GrabRequest("opencl", "source", b"")),
]
NAMES = ["asks", "removes", "removes a context", "streams", "grabs"]


@pytest.mark.parametrize("ask", ASKED, ids=NAMES)
def test_a_refused_call_is_sent_again_whatever_it_does(
    refusing: Callable[[int], tuple[str, list[int]]], ask: Callable[[Any], Any]
) -> None:
    address, came = refusing(3)
    with Client(address, timeout=60) as client, pytest.raises(NotFound):
        ask(client)
    assert len(came) == 4


@pytest.mark.parametrize("ask", ASKED, ids=NAMES)
def test_the_same_awaited(refusing: Callable[[int], tuple[str, list[int]]], ask: Callable[[Any], Any]) -> None:
    async def asked(address: str) -> None:
        async with AsyncClient(address, timeout=60) as client:
            await ask(client)

    address, came = refusing(3)
    with pytest.raises(NotFound):
        asyncio.run(asked(address))
    assert len(came) == 4


def test_a_watch_that_was_refused_begins_again(refusing: Callable[[int], tuple[str, list[int]]]) -> None:
    address, came = refusing(3)
    with Client(address) as client, pytest.raises(NotFound):
        list(client.watch())
    assert len(came) == 4


@pytest.mark.parametrize("timeout", [60.0, None])
def test_a_daemon_that_refuses_every_attempt_is_said_to_be_there(
    refusing: Callable[[int], tuple[str, list[int]]], timeout: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("symd.rpc.retry.REFUSALS", 5)
    address, came = refusing(1_000_000)
    its_end = 60 * 2  # the timeout passes with the sixth call, however slow the machine is
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + (its_end if len(came) > 5 else 0))
    monkeypatch.setattr("symd.rpc.retry.time", clock)
    with Client(address, timeout=timeout) as client, pytest.raises(Unavailable) as caught:
        client.missing([DIGEST])
    assert not isinstance(caught.value, ServerUnavailable)
    assert "calls_per_connection" in str(caught.value)
    assert "no daemon" not in str(caught.value)
    assert len(came) == 6
