"""What comes is no answer, or HTTP/2 ends the stream without one: both clients say so by name."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import struct
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent import futures
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest

from symd import AsyncClient, Client
from symd.errors import Malformed, ServerUnavailable, Unavailable
from symd.rpc.call_errors import unreachable
from symd.rpc.channel import SERVICE_CONFIG
from symd.v1 import (
    breakpoint_service_pb2,
    core_service_pb2,
    listing_service_pb2,
    module_service_pb2,
    symbol_service_pb2,
)
from tests.impatient import be_impatient

DIGEST = "0" * 64
PREFACE = 24
HEADER = 9
DATA, HEADERS, RST_STREAM, SETTINGS, PING = 0, 1, 3, 4, 6
ACK = END_STREAM = 1
"""Of HTTP/2 (RFC 9113): bytes of a client's preface and of a frame's header, types of frames, and flags."""
TRIES = 40
"""Calls of which at least one is broken off in the middle. Of six none was where other programs kept the processors busy."""


def test_a_daemon_that_is_started_again_is_looked_for_each_second(tmp_path: Path) -> None:
    """gRPC's own pauses between attempts to connect grow to two minutes."""
    address = f"unix:{tmp_path}/daemon"
    with socket.socket(socket.AF_UNIX) as refusing, Client(address, timeout=5) as client:
        refusing.bind(str(tmp_path / "daemon"))
        for _ in range(22):  # five and a half seconds: the next of gRPC's own attempts would be four away
            with pytest.raises(ServerUnavailable):
                client.health()
            time.sleep(0.25)
        refusing.listen()
        refusing.settimeout(2.5)
        refusing.accept()[0].close()


class _Nonsense(grpc.GenericRpcHandler):
    """Answers every call with bytes that are no message."""

    def service(self, details: Any) -> Any:
        if details.method.endswith("/Watch"):
            return grpc.stream_stream_rpc_method_handler(lambda _requests, _context: iter([b"\xff\xff\xff"]))
        if details.method.endswith("/GetLineTable"):
            return grpc.unary_stream_rpc_method_handler(lambda _request, _context: iter([b"\xff\xff\xff"]))
        return grpc.unary_unary_rpc_method_handler(lambda _request, _context: b"\xff\xff\xff")


@pytest.fixture
def nonsense() -> Iterator[str]:
    server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[_Nonsense()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


@pytest.fixture
def breaking() -> Iterator[Callable[[int], str]]:
    """Starts a server that ends every stream with that code of HTTP/2; its address."""
    with ExitStack() as stack:

        def start(code: int) -> str:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            threading.Thread(target=_accept, args=(listener, code), daemon=True).start()
            return f"127.0.0.1:{listener.getsockname()[1]}"

        yield start


def _accept(listener: socket.socket, code: int) -> None:
    while True:
        try:
            taken, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_end_streams, args=(taken, code), daemon=True).start()


def _end_streams(taken: socket.socket, code: int) -> None:
    """Each after the client's first message, and when it has answered a PING: what it wrote before is then written also
    as gRPC sees it, which else may say of a message that it could not be written instead of how the stream ended."""
    with taken, taken.makefile("rb") as read:
        taken.sendall(_frame(SETTINGS) + _frame(SETTINGS, flags=ACK))
        read.read(PREFACE)
        while header := read.read(HEADER):
            body = read.read(int.from_bytes(header[:3], "big"))
            kind, flags, stream = header[3], header[4], int.from_bytes(header[5:], "big")
            if kind == DATA:
                taken.sendall(_frame(PING, struct.pack(">Q", stream)))
            elif kind == PING and flags & ACK:
                taken.sendall(_frame(RST_STREAM, struct.pack(">I", code), stream=int.from_bytes(body, "big")))
            elif kind == PING:
                taken.sendall(_frame(PING, body, flags=ACK))


def _frame(kind: int, body: bytes = b"", *, flags: int = 0, stream: int = 0) -> bytes:
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body


@pytest.fixture
def dying(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Starts a server that is gone when it is asked something; its address, of that scheme."""
    numbers = itertools.count()
    with ExitStack() as stack:

        def start(scheme: str, end: int = END_STREAM) -> str:
            family, place = (
                (socket.AF_UNIX, str(tmp_path / f"s{next(numbers)}"))
                if scheme == "unix:"
                else (socket.AF_INET, ("127.0.0.1", 0))
            )
            listener = stack.enter_context(socket.create_server(place, family=family))
            threading.Thread(target=_die, args=(listener, end), daemon=True).start()
            bound = listener.getsockname()
            return f"unix:{bound}" if scheme == "unix:" else f"{scheme}127.0.0.1:{bound[1]}"

        yield start


def _die(listener: socket.socket, end: int) -> None:
    """Not before all of a request has come, whose last frame has the flag ``end`` (0: its first, of one that stays open): one that gRPC has not sent
    yet it sends again, to whoever listens then."""
    taken, _ = listener.accept()
    with taken, taken.makefile("rb") as read:
        taken.sendall(_frame(SETTINGS) + _frame(SETTINGS, flags=ACK))
        read.read(PREFACE)
        while header := read.read(HEADER):
            body = read.read(int.from_bytes(header[:3], "big"))
            if header[3] == PING and not header[4] & ACK:
                taken.sendall(_frame(PING, body, flags=ACK))
            if header[3] == DATA and header[4] & end == end:
                break
        listener.close()


def _end_of(ask: Callable[[Client], Any]) -> int:
    """The flag of the last frame that the client sends before it waits: a watch stays open."""
    return 0 if ask is ASKED[-1] else END_STREAM


ASKED: list[Callable[[Client], Any]] = [
    lambda client: client.missing([DIGEST]),
    lambda client: list(client.lines(DIGEST)),
    lambda client: list(client.watch()),
]


@pytest.mark.parametrize("ask", ASKED)
def test_what_is_no_answer_is_malformed(nonsense: str, ask: Callable[[Client], Any]) -> None:
    with Client(nonsense, timeout=60) as client, pytest.raises(Malformed, match="what came is not an answer") as caught:
        ask(client)
    assert caught.value.where == nonsense


@pytest.mark.parametrize("code", [0, 1, 2, 13])
@pytest.mark.parametrize("ask", ASKED)
def test_a_stream_that_ends_without_an_answer_may_do_again(
    breaking: Callable[[int], str], ask: Callable[[Client], Any], code: int
) -> None:
    with Client(breaking(code), timeout=60) as client, pytest.raises(Unavailable, match="was broken off") as caught:
        ask(client)
    assert type(caught.value) is Unavailable
    assert f"code {code}" in caught.value.metadata["grpc"]


async def _collected(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


ASKED_ASYNC: list[Callable[[AsyncClient], Any]] = [
    lambda client: client.missing([DIGEST]),
    lambda client: _collected(client.lines(DIGEST)),
    lambda client: _collected(client.watch()),
]


@pytest.mark.parametrize("ask", ASKED_ASYNC)
def test_the_same_awaited(nonsense: str, breaking: Callable[[int], str], ask: Callable[[AsyncClient], Any]) -> None:
    async def asked(address: str) -> Any:
        async with AsyncClient(address, timeout=60) as client:
            return await ask(client)

    with pytest.raises(Malformed, match="what came is not an answer"):
        asyncio.run(asked(nonsense))
    with pytest.raises(Unavailable, match="was broken off"):
        asyncio.run(asked(breaking(0)))


@pytest.mark.parametrize("scheme", ["unix:", ""])
@pytest.mark.parametrize("ask", ASKED)
def test_a_daemon_that_dies_in_the_middle_of_a_call_is_told_as_that(
    dying: Callable[..., str], ask: Callable[[Client], Any], scheme: str
) -> None:
    """gRPC may begin a call anew by itself (seen in 5 of 100 watches over a Unix socket): then nobody listens there any more."""
    assert any(_is_told_as_broken(dying(scheme, _end_of(ask)), ask) for _ in range(TRIES))


def _is_told_as_broken(address: str, ask: Callable[[Client], Any]) -> bool:
    """Whether the call was told as broken off; else it was begun anew, and must be told as one that nobody took."""
    with Client(address, timeout=60) as client, pytest.raises(ServerUnavailable) as caught:
        ask(client)
    told = str(caught.value)
    assert "limit" not in told
    if "in the middle of the call (try again when `symd health` says SERVING" in told:
        return True
    assert "failed to connect" in caught.value.metadata["grpc"]
    assert "no daemon answers" in told
    return False


def test_the_same_behind_tls() -> None:
    assert "in the middle of the call" in unreachable("tls:host:1", "Stream removed (Socket closed)")[0]
    connecting = "failed to connect to all addresses; last error: UNAVAILABLE: ipv4:1.2.3.4:1: Socket closed"
    what, hint = unreachable("tls:host:1", connecting)
    assert (what, "connections" in hint) == ("the daemon took no TLS connection from you", True)


@pytest.mark.parametrize("ask", ASKED)
def test_a_call_ends_whose_last_daemon_of_several_dies(
    dying: Callable[..., str], ask: Callable[[Client], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    be_impatient(monkeypatch)
    with Client(dying("ipv4:", _end_of(ask))) as client, pytest.raises(ServerUnavailable):
        ask(client)


def test_no_stream_is_begun_anew_by_grpc_itself() -> None:
    left_out = {
        (name["service"], name["method"])
        for method in json.loads(SERVICE_CONFIG)["methodConfig"]
        for name in method["name"]
        if name and "retryPolicy" not in method
    }
    for services in (
        module_service_pb2,
        symbol_service_pb2,
        breakpoint_service_pb2,
        core_service_pb2,
        listing_service_pb2,
    ):
        for service in services.DESCRIPTOR.services_by_name.values():
            streams = {each.name for each in service.methods if each.client_streaming or each.server_streaming}
            assert {(service.full_name, name) for name in streams} <= left_out
