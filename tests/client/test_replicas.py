"""A client of several daemons: what it names them by, and how it goes on when one is lost."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from concurrent import futures
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from symd import Client
from symd.config import Limits
from symd.errors import InvalidInput, NotFound, ServerUnavailable, StoreUnavailable, SymdError, Unavailable
from symd.rpc import channel
from symd.rpc.channel import Credentials
from symd.rpc.failover import OPTIONS, Failover, are_several, hosts
from symd.rpc.retry import CONNECT_DEADLINE, RECONNECT_DEADLINE, Attempt
from symd.server.server import options
from symd.v1.module_service_pb2 import WatchModulesResponse


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()

    async def sleep(seconds: float) -> None:
        clock.sleep(seconds)

    monkeypatch.setattr("symd.rpc.failover.time", clock)
    monkeypatch.setattr("symd.rpc.retry.time", clock)
    monkeypatch.setattr("symd.rpc.failover.asyncio.sleep", sleep)
    return clock


def streams(*plans: list[object]) -> Callable[..., Generator[object, None, None]]:
    """Begins a stream after another: each says what its plan has, and raises an error that stands there."""
    left = iter(plans)

    def begin(*_: object) -> Generator[object, None, None]:
        for each in next(left, [LOST]):
            if isinstance(each, SymdError):
                raise each
            yield each

    return begin


def in_async(begin: Callable[[], Iterator[object]]) -> Callable[[object], AsyncGenerator[object, None]]:
    async def again(_attempt: object) -> AsyncGenerator[object, None]:
        for each in begin():
            yield each

    return again


def told_by(begin: Callable[[], Generator[object, None, None]], *, several: bool, awaited: bool) -> list[object]:
    persistence = Failover(several=several)
    if not awaited:
        return list(persistence.replayed(begin, None))

    async def gathered() -> list[object]:
        return [each async for each in persistence.replayed_async(in_async(begin), None)]

    return asyncio.run(gathered())


LOST = ServerUnavailable("no daemon answers")


@pytest.mark.parametrize("awaited", [False, True])
def test_a_stream_that_is_lost_is_told_once(awaited: bool) -> None:
    begin = streams([1, 2, LOST], [LOST], [1, 2, 3, Unavailable("ended without a word")], [1, 2, 3, 4])
    assert told_by(begin, several=True, awaited=awaited) == [1, 2, 3, 4]


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize(
    ("error", "several"), [(LOST, False), (StoreUnavailable("the disk refused"), True)], ids=["alone", "not lost"]
)
def test_other_errors_and_those_of_a_daemon_alone_are_raised_at_once(
    error: SymdError, several: bool, awaited: bool
) -> None:
    with pytest.raises(type(error)):
        told_by(streams([1, error], [1, 2]), several=several, awaited=awaited)


@pytest.mark.parametrize("awaited", [False, True])
def test_a_stream_goes_on_where_daemons_are_lost_again_and_again_between_its_messages(awaited: bool) -> None:
    in_between = [[*range(number), LOST] for number in range(1, 40)]
    assert told_by(streams(*in_between, [0, 1]), several=True, awaited=awaited)[:2] == [0, 1]


class Calls:
    """Calls of a client of several daemons, which find whatever the plan has next, and daemons that are away after its end."""

    def __init__(self, clock: Clock, *, awaited: bool) -> None:
        self.clock, self.awaited = clock, awaited
        self.persistence = Failover(several=True)
        self.timeouts: list[float | None] = []

    def seconds(self, *plan: object, timeout: float | None = None) -> float:
        """How long a call took, which has an answer where the plan has one."""
        left = iter(plan)
        self.timeouts = []
        began = self.clock.now

        def call(attempt: Attempt) -> object:
            self.timeouts.append(attempt.timeout)
            answer = next(left, LOST)
            if isinstance(answer, SymdError):
                raise answer
            return answer

        async def later(attempt: Attempt) -> object:
            return call(attempt)

        try:
            if self.awaited:
                asyncio.run(self.persistence.called_async(later, timeout))
            else:
                self.persistence.called(call, timeout)
            assert not isinstance(plan[-1], SymdError)
        except ServerUnavailable:
            assert not plan or isinstance(plan[-1], SymdError)
        return self.clock.now - began


@pytest.fixture(params=[False, True], ids=["called", "awaited"])
def calls(clock: Clock, request: pytest.FixtureRequest) -> Calls:
    return Calls(clock, awaited=request.param)


def test_a_call_is_made_again(calls: Calls) -> None:
    assert 0 < calls.seconds(LOST, LOST, 7) < 1


def test_an_address_at_which_no_daemon_ever_answered_is_given_up_soon(calls: Calls) -> None:
    assert CONNECT_DEADLINE - 1 <= calls.seconds() <= CONNECT_DEADLINE
    assert CONNECT_DEADLINE - 1 <= calls.seconds(timeout=60) <= CONNECT_DEADLINE
    assert calls.seconds(timeout=3) <= 3


@pytest.mark.parametrize("known", [7, NotFound("no such module")], ids=["an answer", "an error"])
def test_daemons_that_answered_before_are_waited_for(calls: Calls, known: object) -> None:
    with suppress(NotFound):
        calls.seconds(known)
    assert RECONNECT_DEADLINE - 1 <= calls.seconds() <= RECONNECT_DEADLINE
    assert 20 < calls.seconds(*[LOST] * 25, 7) < RECONNECT_DEADLINE


def test_a_call_with_a_timeout_is_tried_for_as_long_as_that_allows_and_no_longer(calls: Calls) -> None:
    calls.seconds(7)
    assert 99 <= calls.seconds(timeout=100) <= 100
    assert calls.timeouts[0] == 100
    assert all(each is not None and 0 < each <= 100 for each in calls.timeouts)
    assert calls.timeouts == sorted(calls.timeouts, key=lambda left: -(left or 0))
    assert calls.seconds(timeout=0.5) <= 0.5


def test_pauses_are_bounded(calls: Calls) -> None:
    calls.seconds(7)
    calls.seconds(timeout=5000)
    assert len(calls.timeouts) > 5000


def test_no_thread_is_begun_where_a_daemon_alone_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost(_attempt: Attempt) -> None:
        raise LOST

    async def each_way() -> None:
        persistence = Failover(several=False)
        with pytest.raises(ServerUnavailable):
            await persistence.called_async(lost, None)
        with pytest.raises(ServerUnavailable):
            _ = [each async for each in persistence.replayed_async(in_async(streams([LOST])), None)]

    monkeypatch.setattr(threading.Thread, "start", None)  # whoever begins one fails
    asyncio.run(each_way())


def test_what_is_asked_of_the_first_of_several_that_is_lost_waits_in_a_thread() -> None:
    asked: list[threading.Thread] = []

    def is_certain(_error: SymdError) -> bool:
        asked.append(threading.current_thread())
        return False

    answers = streams([LOST], [LOST], [LOST], [7])

    async def later(_attempt: Attempt) -> object:
        return next(answers())

    assert asyncio.run(Failover(several=True, is_certain=is_certain).called_async(later, None)) == 7
    assert len(asked) == 1
    assert threading.main_thread() not in asked


@pytest.mark.parametrize("awaited", [False, True])
def test_what_is_certain_of_the_first_loss_ends_a_call_and_a_stream(awaited: bool) -> None:
    seen: list[SymdError] = []
    persistence = Failover(several=True, is_certain=lambda error: seen.append(error) is None)
    begin = streams([LOST], [1])

    async def later() -> list[object]:
        return [each async for each in persistence.replayed_async(in_async(begin), None)]

    with pytest.raises(ServerUnavailable):
        asyncio.run(later()) if awaited else list(persistence.replayed(begin, None))
    assert seen == [LOST]


def removed(name: str, position: str = "") -> WatchModulesResponse:
    return WatchModulesResponse(position=position, removed=name)


@pytest.mark.parametrize("awaited", [False, True])
def test_a_watch_goes_on_after_its_position_and_tells_nothing_twice(awaited: bool) -> None:
    begun: list[str] = []
    begin = streams(
        [removed("a"), removed("b"), LOST],  # what is there, before the first position
        [removed("b"), removed("a"), removed("c"), removed("d", "p1"), removed("e"), LOST],
        [removed("e"), removed("f", "p2")],
    )
    told = watched(begin, begun, awaited=awaited)
    assert (told, begun) == (["a", "b", "c", "d", "e", "f"], ["", "", "p1"])


@pytest.mark.parametrize("awaited", [False, True])
def test_a_watch_outlives_a_store_that_is_away_for_a_moment(awaited: bool) -> None:
    away = StoreUnavailable("the database is started anew")
    begun: list[str] = []
    begin = streams([removed("a", "p1"), away], *[[away]] * 20, [removed("b", "p2")])
    assert (watched(begin, begun, awaited=awaited), begun) == (["a", "b"], ["", *["p1"] * 21])
    with pytest.raises(StoreUnavailable):
        watched(streams(*[[away]] * 100), [], awaited=awaited)


@pytest.mark.parametrize("awaited", [False, True])
def test_a_quiet_watch_outlives_daemons_that_are_restarted_one_after_another(awaited: bool, clock: Clock) -> None:
    restarts = iter(range(30))

    def begin() -> Generator[WatchModulesResponse, None, None]:
        if next(restarts, None) is None:
            yield removed("b", "p2")
            return
        clock.sleep(15.0)
        raise LOST

    assert watched(begin, [], awaited=awaited) == ["b"]


def watched(begin: Callable[[], Generator[Any, None, None]], begun: list[str], *, awaited: bool) -> list[str]:
    """What a watch from the beginning tells; the positions at which it is begun go into ``begun``."""
    persistence = Failover(several=True)

    def noted(position: str) -> Generator[Any, None, None]:
        begun.append(position)
        return begin()

    async def noted_async(position: str) -> AsyncGenerator[Any, None]:
        for message in noted(position):
            yield message

    async def gathered() -> list[str]:
        return [message.removed async for message in persistence.followed_async(noted_async, "")]

    if awaited:
        return asyncio.run(gathered())
    return [message.removed for message in persistence.followed(noted, "")]


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
    monkeypatch.setattr("symd.rpc.retry.CONNECT_DEADLINE", 0.0)
    names = ("grpc.keepalive_time_ms", "grpc.keepalive_timeout_ms", "grpc.http2.ping_timeout_ms")
    quick = dict.fromkeys(names, 300)
    for each in ("OPTIONS", "KEEPALIVE"):
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
    assert 2 * least <= dict(OPTIONS)["grpc.keepalive_time_ms"]


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
