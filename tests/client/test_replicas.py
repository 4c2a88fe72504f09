"""A client of several daemons: what it names them by, and how it goes on when one is lost."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from symd import Client, channel
from symd.channel import Credentials
from symd.config import Limits
from symd.errors import InvalidInput, ServerUnavailable, StoreUnavailable, SymdError, Unavailable
from symd.replicas import ATTEMPTS, OPTIONS, Persistence, are_several, hosts
from symd.service.server import options
from symd.v1.module_service_pb2 import WatchModulesResponse


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("symd.replicas._pause_seconds", lambda _lost: 0.0)


def streams(*plans: list[object]) -> Callable[..., Generator[object, None, None]]:
    """Begins a stream after another: each says what its plan has, and raises an error that stands there."""
    left = iter(plans)

    def begin(*_: object) -> Generator[object, None, None]:
        for each in next(left):
            if isinstance(each, SymdError):
                raise each
            yield each

    return begin


def in_async(begin: Callable[[], Iterator[object]]) -> Callable[[], AsyncGenerator[object, None]]:
    async def again() -> AsyncGenerator[object, None]:
        for each in begin():
            yield each

    return again


def told_by(begin: Callable[[], Generator[object, None, None]], *, several: bool, awaited: bool) -> list[object]:
    persistence = Persistence(several=several)
    if not awaited:
        return list(persistence.replayed(begin))

    async def gathered() -> list[object]:
        return [each async for each in persistence.replayed_async(in_async(begin))]

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
def test_a_client_gives_up_after_so_many_losses_one_after_another(awaited: bool) -> None:
    with pytest.raises(ServerUnavailable):
        told_by(streams(*[[LOST]] * ATTEMPTS, [1]), several=True, awaited=awaited)
    in_between = [[*range(number), LOST] for number in range(1, 2 * ATTEMPTS)]
    assert told_by(streams(*in_between, [0, 1]), several=True, awaited=awaited)[:2] == [0, 1]


def test_a_call_is_made_again() -> None:
    answers = iter([LOST, LOST, 7])

    def call() -> int:
        answer = next(answers)
        if isinstance(answer, SymdError):
            raise answer
        return answer

    assert Persistence(several=True).called(call) == 7

    answers = iter([LOST, 8])

    async def later() -> int:
        return call()

    assert asyncio.run(Persistence(several=True).called_async(later)) == 8


def test_no_thread_is_begun_where_a_daemon_alone_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost() -> None:
        raise LOST

    async def each_way() -> None:
        persistence = Persistence(several=False)
        with pytest.raises(ServerUnavailable):
            await persistence.called_async(lost)
        with pytest.raises(ServerUnavailable):
            _ = [each async for each in persistence.replayed_async(in_async(streams([LOST])))]

    monkeypatch.setattr(threading.Thread, "start", None)  # whoever begins one fails
    asyncio.run(each_way())


def test_what_is_asked_of_the_first_of_several_that_is_lost_waits_in_a_thread() -> None:
    asked: list[threading.Thread] = []

    def is_certain(_error: Unavailable) -> bool:
        asked.append(threading.current_thread())
        return False

    answers = streams([LOST], [LOST], [LOST], [7])

    async def later() -> object:
        return next(answers())

    assert asyncio.run(Persistence(several=True, is_certain=is_certain).called_async(later)) == 7
    assert len(asked) == 1
    assert threading.main_thread() not in asked


@pytest.mark.parametrize("awaited", [False, True])
def test_what_is_certain_of_the_first_loss_ends_a_call_and_a_stream(awaited: bool) -> None:
    seen: list[Unavailable] = []
    persistence = Persistence(several=True, is_certain=lambda error: seen.append(error) is None)
    begin = streams([LOST], [1])

    async def later() -> list[object]:
        return [each async for each in persistence.replayed_async(in_async(begin))]

    with pytest.raises(ServerUnavailable):
        asyncio.run(later()) if awaited else list(persistence.replayed(begin))
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
    begin = streams([removed("a", "p1"), away], [away], [removed("b", "p2")])
    assert (watched(begin, begun, awaited=awaited), begun) == (["a", "b"], ["", "p1", "p1"])
    with pytest.raises(StoreUnavailable):
        watched(streams(*[[away]] * ATTEMPTS), [], awaited=awaited)


@pytest.mark.parametrize("awaited", [False, True])
def test_a_quiet_watch_outlives_more_losses_than_are_borne_one_after_another(
    awaited: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet = [[removed("a", "p1"), LOST], *[[LOST]] * (2 * ATTEMPTS), [removed("b", "p2")]]
    with pytest.raises(ServerUnavailable):
        watched(streams(*quiet), [], awaited=awaited)
    monkeypatch.setattr("symd.replicas._STOOD_SECONDS", 0.0)
    assert watched(streams(*quiet), [], awaited=awaited) == ["a", "b"]


def watched(begin: Callable[[], Generator[Any, None, None]], begun: list[str], *, awaited: bool) -> list[str]:
    """What a watch from the beginning tells; the positions at which it is begun go into ``begun``."""
    persistence = Persistence(several=True)

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


@pytest.mark.parametrize("address", ["ipv4:127.0.0.1", "ipv4:", "ipv4:127.0.0.1:1,", "dns:///host", "dns:"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(InvalidInput, match="not the address"):
        Client(address)


@pytest.mark.parametrize("address", ["host:1,other:2", "tls:host:1,other:2"])
def test_several_hosts_without_a_scheme_are_told_how_to_write_them(address: str) -> None:
    with pytest.raises(InvalidInput, match="write ipv4:ADDRESS:PORT,ADDRESS:PORT for several"):
        Client(address)


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
