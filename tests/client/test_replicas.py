"""A client of several daemons: what it names them by, and how it goes on when one is lost."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Generator
from concurrent import futures
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest

from symd import AsyncClient, Client
from symd.config import Limits
from symd.errors import InvalidInput, ServerUnavailable, StoreUnavailable, SymdError
from symd.model.answers import Answers
from symd.rpc import channel
from symd.rpc.async_calls import AsyncCalls
from symd.rpc.calls import Calls
from symd.rpc.channel import PAUSES, SERVICE_CONFIG, SINGLE_DAEMON_OPTIONS, Credentials, are_several, hosts
from symd.rpc.wire.failures import to_status
from symd.server.server import options
from symd.v1.breakpoint_service_pb2 import WatchRequest, WatchResponse, WatchStart
from tests.client.test_silence import sound_daemon
from tests.impatient import be_impatient
from tests.server.fakes import DIGEST


class Ended(grpc.RpcError):
    """The status of a call."""

    def __init__(self, code: grpc.StatusCode, details: str = "", error: SymdError | None = None) -> None:
        self._code, self._details = code, details
        self._trailers = () if error is None else (("grpc-status-details-bin", to_status(error).SerializeToString()),)

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details

    def trailing_metadata(self) -> tuple[tuple[str, bytes], ...]:
        return self._trailers


LOST = Ended(grpc.StatusCode.UNAVAILABLE, "failed to connect")
WORDLESS = Ended(grpc.StatusCode.CANCELLED)
AWAY = Ended(grpc.StatusCode.UNAVAILABLE, "it is away", StoreUnavailable("it is away"))
SEVERAL, ALONE = "ipv4:127.0.0.1:1,127.0.0.1:2", "127.0.0.1:1"


class Call:
    """One call: it says what its plan has, raises an error that stands there, and then ends."""

    def __init__(self, plan: list[object]) -> None:
        self._left, self._done = iter(plan), False

    def __iter__(self) -> Call:
        return self

    def __next__(self) -> object:
        each = next(self._left)
        if isinstance(each, Ended):
            self._done = True
            raise each
        return each

    def __aiter__(self) -> Call:
        return self

    async def __anext__(self) -> object:
        try:
            return next(self)
        except StopIteration:
            raise StopAsyncIteration from None

    def __await__(self) -> Generator[None, None, object]:
        yield
        return next(self)

    def done(self) -> bool:
        return self._done

    def cancel(self) -> None:
        self._done = True


class Method:
    """What a client calls: one plan after another, and daemons that are away after the last. ``awaited`` clients go the same way."""

    def __init__(
        self, *plans: list[object], address: str = SEVERAL, awaited: bool = False, timeout: float | None = None
    ) -> None:
        self._plans, self._awaited = iter(plans), awaited
        kind = AsyncCalls if awaited else Calls
        self._calls: Any = kind(address, timeout, Credentials())
        self.asked: list[Any] = []
        self.timeouts: list[float | None] = []

    def __call__(self, request: Any, timeout: float | None = None, metadata: object = ()) -> Call:
        self.asked.append(request.start.resume_token if isinstance(request, WatchRequest) else None)
        self.timeouts.append(timeout)
        return Call(next(self._plans, [LOST]))

    def told(self, **options: bool) -> list[Any]:
        """What a stream says."""
        return self._listed(lambda: self._calls.stream(self, None, **options))

    def watched(self) -> list[str]:
        """What a watch tells from the beginning."""
        return [each.removed for each in self._listed(lambda: self._calls.followed(self, started, list, "")[0])]

    def answer(self, request: Any) -> Any:
        ask = self._calls.client_streaming if callable(request) else self._calls.unary
        if self._awaited:
            return asyncio.run(ask(self, request))
        return ask(lambda *args, **words: next(self(*args, **words)), request)

    def _listed(self, begin: Callable[[], Any]) -> list[Any]:
        async def listed() -> list[Any]:
            return [each async for each in begin()]

        return asyncio.run(listed()) if self._awaited else list(begin())


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between attempts, of which none takes its time."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("symd.rpc.calls.time.sleep", slept.append)
    monkeypatch.setattr("symd.rpc.async_calls.asyncio.sleep", sleep)
    return slept


awaited_too = pytest.mark.parametrize("awaited", [False, True])


@awaited_too
@pytest.mark.usefixtures("pauses")
def test_a_stream_that_is_lost_is_told_once(awaited: bool) -> None:
    method = Method([1, 2, LOST], [LOST], [1, 2, 3, WORDLESS], [1, 2, 3, 4], awaited=awaited)
    assert method.told() == [1, 2, 3, 4]


@awaited_too
@pytest.mark.parametrize("ended", [LOST, AWAY], ids=["lost", "away"])
def test_other_errors_and_those_of_a_daemon_alone_are_raised_at_once(
    pauses: list[float], awaited: bool, ended: Ended
) -> None:
    address = ALONE if ended is LOST else SEVERAL
    with pytest.raises(ServerUnavailable if ended is LOST else StoreUnavailable):
        Method([1, ended], [1, 2], address=address, awaited=awaited).told()
    assert not pauses


@awaited_too
def test_what_may_not_be_repeated_is_asked_once(pauses: list[float], awaited: bool) -> None:
    with pytest.raises(ServerUnavailable):
        Method([1, LOST], [1, 2], awaited=awaited).told(may_repeat=False)
    assert not pauses


@awaited_too
@pytest.mark.usefixtures("pauses")
def test_a_stream_goes_on_where_daemons_are_lost_again_and_again_between_its_messages(awaited: bool) -> None:
    in_between: list[list[object]] = [[*range(number), LOST] for number in range(1, 40)]
    assert Method(*in_between, [*range(40)], awaited=awaited).told() == [*range(40)]


@awaited_too
def test_daemons_that_are_all_away_are_given_up(pauses: list[float], awaited: bool) -> None:
    with pytest.raises(ServerUnavailable):
        Method(awaited=awaited).told()
    assert tuple(pauses) == PAUSES


@awaited_too
def test_the_timeout_is_for_all_attempts_together(pauses: list[float], awaited: bool) -> None:
    method = Method(awaited=awaited, timeout=1.5)
    with pytest.raises(ServerUnavailable):
        method.told()
    assert tuple(pauses) == PAUSES[:2]
    assert all(each is not None and each <= 1.5 for each in method.timeouts)
    assert method.timeouts == sorted(method.timeouts, key=lambda left: -(left or 0))


@awaited_too
def test_an_upload_is_sent_again_and_one_message_is_left_to_grpc(pauses: list[float], awaited: bool) -> None:
    assert Method([LOST], [7], awaited=awaited).answer(lambda: iter([1, 2])) == 7
    assert len(pauses) == 1
    with pytest.raises(ServerUnavailable):
        Method([LOST], [7], awaited=awaited).answer(HealthCheckRequest())
    assert len(pauses) == 1


def test_what_grpc_is_told_pauses_as_we_do() -> None:
    policy = json.loads(SERVICE_CONFIG)["methodConfig"][-1]["retryPolicy"]
    first, longest = (float(policy[name].removesuffix("s")) for name in ("initialBackoff", "maxBackoff"))
    grown = [min(first * policy["backoffMultiplier"] ** number, longest) for number in range(policy["maxAttempts"] - 1)]
    assert grown == pytest.approx(PAUSES)


def started(resume_token: str) -> WatchRequest:
    return WatchRequest(start=WatchStart(resume_token=resume_token))


def removed(name: str, resume_token: str = "") -> WatchResponse:
    return WatchResponse(resume_token=resume_token, removed=name)


@awaited_too
@pytest.mark.usefixtures("pauses")
def test_a_watch_goes_on_after_its_position_and_tells_nothing_twice(awaited: bool) -> None:
    method = Method(
        [removed("a"), removed("b"), LOST],  # what is there, before the first position
        [removed("b"), removed("a"), removed("c"), removed("d", "p1"), removed("e"), LOST],
        [removed("e"), removed("f", "p2")],
        awaited=awaited,
    )
    assert (method.watched(), method.asked) == (["a", "b", "c", "d", "e", "f"], ["", "", "p1"])


@awaited_too
def test_a_watch_outlives_a_store_that_is_away_for_a_moment(pauses: list[float], awaited: bool) -> None:
    away: list[list[object]] = [[AWAY]] * 7
    method = Method([removed("a", "p1"), AWAY], *away, [removed("b", "p2")], awaited=awaited)
    assert (method.watched(), method.asked) == (["a", "b"], ["", *["p1"] * 8])
    assert sum(pauses) > 20
    with pytest.raises(StoreUnavailable):
        Method(*away, [AWAY], [AWAY], awaited=awaited).watched()


@awaited_too
@pytest.mark.usefixtures("pauses")
def test_a_quiet_watch_outlives_daemons_that_are_restarted_one_after_another(
    awaited: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    restarts: list[list[object]] = [[LOST]] * 30
    with pytest.raises(ServerUnavailable):
        Method(*restarts, [removed("b", "p2")], awaited=awaited).watched()
    monkeypatch.setattr("symd.rpc.retry._ESTABLISHED_SECONDS", 0.0)  # each of them stood for a while
    assert Method(*restarts, [removed("b", "p2")], awaited=awaited).watched() == ["b"]


@pytest.mark.parametrize(
    ("address", "several", "named"),
    [
        ("unix:/run/s", False, ["unix:/run/s"]),
        ("host:1", False, ["host:1"]),
        ("tls:host:1", False, ["host:1"]),
        ("dns:///host:1", True, ["host:1"]),
        ("tls:dns:///host:1", True, ["host:1"]),
        ("ipv4:127.0.0.1:1,127.0.0.2:2", True, ["127.0.0.1:1", "127.0.0.2:2"]),
        ("ipv6:[::1]:1,[::2]:2", True, ["[::1]:1", "[::2]:2"]),
    ],
)
def test_an_address_may_name_several(address: str, several: bool, named: list[str]) -> None:
    assert (are_several(address), hosts(address)) == (several, named)
    Client(address).close()


@pytest.mark.parametrize(
    "address", ["ipv4:127.0.0.1", "ipv4:", "ipv4:127.0.0.1:1,", "dns:///host", "dns:", "host:99999"]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(InvalidInput, match="not the address"):
        Client(address)


@pytest.mark.parametrize("address", ["host:1,other:2", "tls:host:1,other:2"])
def test_several_hosts_without_a_scheme_are_told_how_to_write_them(address: str) -> None:
    with pytest.raises(InvalidInput, match="write ipv4:ADDRESS:PORT,ADDRESS:PORT for several"):
        Client(address)


@pytest.mark.parametrize(
    ("address", "written"),
    [
        ("ipv4:127.0.0.1:1, 127.0.0.2:2", "write ipv4:127.0.0.1:1,127.0.0.2:2"),
        ("tls:dns:///host:1 ", "write tls:dns:///host:1"),
        ("dns:///host", "write ipv4:ADDRESS:PORT,ADDRESS:PORT, or dns:///HOST:PORT"),
    ],
)
def test_blanks_and_a_missing_port_are_told_what_to_write(address: str, written: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Client(address)
    assert caught.value.hint == written


def test_a_token_travels_readable_to_this_machine_alone() -> None:
    shown = Credentials("a token")
    Client("ipv4:127.0.0.1:1,127.0.0.9:2", credentials=shown).close()
    for address in ("ipv4:127.0.0.1:1,10.0.0.1:2", "dns:///daemons.example:1", "ipv4:1270.0.0.1:1"):
        with pytest.raises(InvalidInput, match="readable"):
            Client(address, credentials=shown)


SETTINGS, ACK = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]), bytes([0, 0, 0, 4, 1, 0, 0, 0, 0])
"""Frames of HTTP/2 (RFC 9113, 6.5)."""


@pytest.mark.parametrize("scheme", ["ipv4:", "", "unix:"])
def test_a_daemon_that_says_nothing_more_is_lost(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scheme: str) -> None:
    """It took the connection and the call, and is frozen then: nothing is closed."""
    be_impatient(monkeypatch, maxAttempts=2)
    names = ("grpc.keepalive_time_ms", "grpc.keepalive_timeout_ms", "grpc.http2.ping_timeout_ms")
    quick = dict.fromkeys(names, 300)
    for each in ("SEVERAL_DAEMONS_OPTIONS", "SINGLE_DAEMON_OPTIONS"):
        known: dict[str, object] = dict(getattr(channel, each))
        assert quick.keys() <= known.keys()
        monkeypatch.setattr(channel, each, tuple({**known, **quick}.items()))
    with ExitStack() as stack:
        family, place = (
            (socket.AF_UNIX, str(tmp_path / "s")) if scheme == "unix:" else (socket.AF_INET, ("127.0.0.1", 0))
        )
        listener = stack.enter_context(socket.create_server(place, family=family))

        def take() -> None:
            taken = stack.enter_context(listener.accept()[0])
            listener.close()
            taken.sendall(SETTINGS + ACK)

        bound = listener.getsockname()
        address = f"unix:{bound}" if scheme == "unix:" else f"{scheme}127.0.0.1:{bound[1]}"
        threading.Thread(target=take, daemon=True).start()
        client = stack.enter_context(Client(address, timeout=60))
        with pytest.raises(ServerUnavailable):
            list(client.modules())


def test_daemons_let_clients_ask_as_often_whether_they_are_there() -> None:
    least = dict(options(Limits()))["grpc.http2.min_ping_interval_without_data_ms"]
    assert 2 * least <= dict(SINGLE_DAEMON_OPTIONS)["grpc.keepalive_time_ms"]


class Far:
    """A server at the far end of a slow line: what it says first comes so many seconds after the connection."""

    def __init__(self, server: tuple[str, int], seconds: float) -> None:
        self._server, self._seconds = server, seconds
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # it was closed
            while True:
                threading.Thread(target=self._join, args=(self._listener.accept()[0],), daemon=True).start()

    def _join(self, taken: socket.socket) -> None:
        time.sleep(self._seconds)
        with taken, socket.create_connection(self._server) as server:
            threading.Thread(target=pump, args=(server, taken), daemon=True).start()
            pump(taken, server)


def pump(source: socket.socket, sink: socket.socket) -> None:
    """Hand on what comes until one of the two is closed."""
    with suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


class Health(grpc.GenericRpcHandler):
    """Says of everything that it serves."""

    def service(self, _details: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(lambda _request, _context: b"\x08\x01")


def test_daemons_to_which_a_connection_takes_longer_than_a_second_are_reached() -> None:
    server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[Health()])
    with ExitStack() as stack:
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        stack.callback(lambda: server.stop(None).wait())
        far = stack.enter_context(closing(Far(("127.0.0.1", port), 1.2)))
        client = stack.enter_context(Client(f"ipv4:127.0.0.1:{far.port}", timeout=30))
        assert client.health() == "SERVING"


class Breaking:
    """Hands on to a server, and breaks the first connection when so many bytes of answers have come."""

    def __init__(self, server: str, bytes_told: int) -> None:
        host, _, port = server.rpartition(":")
        self._server, self._left = (host, int(port)), bytes_told
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"ipv4:127.0.0.1:{self._listener.getsockname()[1]}"
        self.broken = False
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # it was closed
            while True:
                threading.Thread(target=self._join, args=(self._listener.accept()[0],), daemon=True).start()

    def _join(self, taken: socket.socket) -> None:
        with taken, socket.create_connection(self._server) as server:
            threading.Thread(target=pump, args=(taken, server), daemon=True).start()
            with suppress(OSError):
                while data := server.recv(1 << 14):
                    self._left -= len(data)
                    if self._left < 0 and not self.broken:
                        self.broken = True
                        taken.shutdown(socket.SHUT_RDWR)
                        return
                    taken.sendall(data)


@awaited_too
@pytest.mark.parametrize("bytes_told", [0, 3_000, 300_000])
def test_a_batch_whose_daemon_is_lost_in_the_middle_is_answered_once_and_in_order(
    awaited: bool, bytes_told: int
) -> None:
    column = np.arange(1 << 19, dtype=np.uint64)[::-1].copy()

    async def asked(address: str) -> Answers:
        async with AsyncClient(address, timeout=60) as client:
            return await client.symbolize_column(DIGEST, column)

    with sound_daemon() as sound, closing(Breaking(sound, bytes_told)) as breaking:
        if awaited:
            answers = asyncio.run(asked(breaking.address))
        else:
            with Client(breaking.address, timeout=60) as client:
                answers = client.symbolize_column(DIGEST, column)
        with Client(sound, timeout=60) as client:
            wanted = client.symbolize_column(DIGEST, column)
    assert breaking.broken
    assert len(answers) == len(column)
    assert list(answers[::1009]) == list(wanted[::1009])
