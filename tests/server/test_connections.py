"""Strangers who reach the port: however many connections they open, users get in; and who has many calls or streams leaves room."""

from __future__ import annotations

import errno
import logging
import os
import socket
import threading
import time
from contextlib import ExitStack, contextmanager
from ipaddress import ip_address
from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from symd.client import Client
from symd.config import Limits
from symd.errors import Busy, ServerUnavailable, Unavailable
from symd.model.addresses import ByAddress
from symd.model.rights import parse_rights
from symd.rpc.channel import Credentials
from symd.server import connections as connections_module
from symd.server.access_file import new_token, token_line
from symd.server.addresses import listening
from symd.server.config import Config, ListenConfig
from symd.server.connections import Connections, Seen, _too_many
from symd.server.logs import QuietLog
from symd.server.peer_names import Remote, remote, tcp_remote
from symd.server.server import build_daemon
from symd.v1 import symbol_service_pb2 as s
from symd.v1.symbol_service_pb2_grpc import SymbolServiceStub
from tests.server.fakes import DIGEST, GOOD, FakeEngine
from tests.server.http2 import ACK, PING, PREFACE, Connection
from tests.server.test_budgets import ANSWERED_WITHIN, ENOUGH, ONE, STREAM, SYMBOLIZE, eventually, neighbour
from tests.server.test_budgets import served as served_unix
from tests.server.test_calls import refusal

TOKEN, OTHER = new_token(), new_token()


@contextmanager
def served(tmp_path, address="127.0.0.1:0", *, open_health=False, rights="read", tls=None, **limits):
    """The address of a daemon over TCP that knows two tokens. ``tls``: the doors' options for it."""
    access = tmp_path / "access"
    access.touch(0o600)
    may = parse_rights(rights)
    access.write_text(f"{token_line('user', may, TOKEN)}\n{token_line('other', may, OTHER)}\n")
    doors = ListenConfig(access=access, open_health=open_health, **(tls or {}))
    limits = ENOUGH | limits
    config = Config(store=Path("/nonexistent"), workers=4, streams=3, grace=1.0, doors=doors, limits=Limits(**limits))
    engine = FakeEngine()
    engine.add(GOOD)
    daemon = build_daemon(engine, config)
    with listening(daemon.server, address, daemon.doors) as bound:
        daemon.server.start()
        try:
            yield bound
        finally:
            daemon.stop(0.2)


@contextmanager
def user(address):
    with Client(address, timeout=20, credentials=Credentials(TOKEN)) as client:
        yield client


def ask(client):
    return client.symbolize_one(DIGEST, ByAddress(0x150)).frames


def eventually_asked(client):
    """What it is answered, once there is a connection, and room among the calls that wait."""
    until = time.monotonic() + ANSWERED_WITHIN
    while True:
        try:
            return ask(client)
        except Unavailable:
            assert time.monotonic() < until


def connected(stack, address, count, *, speak=True):
    """So many connections of a stranger; those that could be made."""
    host, _, port = address.rpartition(":")
    made = []
    for _ in range(count):
        try:
            connection = stack.enter_context(socket.create_connection((host.strip("[]"), int(port)), 10))
            if speak:
                connection.sendall(PREFACE + b"\0\0\0\4\0\0\0\0\0")
            made.append(connection)
        except OSError:
            continue
    return made


def looks(monkeypatch):
    """What waits until connections have been looked through once more, from the beginning to the end."""
    looked, look = threading.Semaphore(0), Connections._attempt_look

    def counted(self, now):
        is_soon = look(self, now)
        looked.release()
        return is_soon

    monkeypatch.setattr(Connections, "_attempt_look", counted)

    def again():
        while looked.acquire(blocking=False):
            pass
        for _ in range(2):
            assert looked.acquire(timeout=ANSWERED_WITHIN)

    return again


def test_clients_that_all_come_back_at_once_are_not_taken_for_a_flood(tmp_path, monkeypatch):
    """As they do when their daemon has been killed and started again: each is let in with its first call."""
    again = looks(monkeypatch)
    with served(tmp_path) as address, ExitStack() as stack:
        clients = connected(stack, address, 250)
        assert len(clients) == 250
        again()
        assert not any(map(is_closed, clients))


def is_closed(connection):
    connection.settimeout(0.001)
    try:
        while connection.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def left(connections):
    return sum(not is_closed(each) for each in connections)


@pytest.mark.parametrize("speak", [True, False])
def test_a_stranger_with_1200_connections_keeps_no_user_out(tmp_path, speak):
    with served(tmp_path) as address, user(address) as before, ExitStack() as stack:
        assert ask(before)
        connections = connected(stack, address, 1200, speak=speak)
        assert eventually(lambda: left(connections) <= 128)
        with user(address) as newly:
            assert ask(newly)
        assert ask(before)


def test_two_thousand_connections_that_come_again_and_again(tmp_path):
    with served(tmp_path) as address, user(address) as before, ExitStack() as stack:
        assert ask(before)
        over = threading.Event()

        def knock():
            while not over.is_set():
                connected(stack, address, 500)

        knocking = threading.Thread(target=knock)
        connected(stack, address, 2000)
        knocking.start()
        try:
            for _ in range(3):
                with user(address) as newly:
                    assert eventually_asked(newly)
                assert ask(before)
        finally:
            over.set()
            knocking.join()


@pytest.fixture
def a_minute_later(monkeypatch):
    """Sets the clock by which connections are looked at. With so few seconds that a test could wait for them a busy daemon would close a user's
    connection before it had read the first call."""
    minutes = []
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + 60 * len(minutes))
    monkeypatch.setattr(connections_module, "time", clock)
    return lambda: minutes.append(1)


def test_a_connection_on_which_nobody_is_let_in_is_closed_and_a_users_stays(tmp_path, a_minute_later):
    with served(tmp_path, unknown_seconds=30.0) as address, user(address) as client, ExitStack() as stack:
        assert ask(client)
        (stranger,) = connected(stack, address, 1)
        with grpc.insecure_channel(address) as channel:
            with pytest.raises(grpc.RpcError) as caught:
                SymbolServiceStub(channel).Symbolize(ONE, timeout=10)
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
            states = []
            channel.subscribe(states.append)
            assert eventually(lambda: a_minute_later() or grpc.ChannelConnectivity.IDLE in states)
        assert eventually(lambda: a_minute_later() or is_closed(stranger))
        assert ask(client)


def test_a_user_whose_stream_is_quiet_is_not_closed(tmp_path, a_minute_later):
    with served(tmp_path, "[::1]:0", unknown_seconds=30.0) as address, grpc.insecure_channel(address) as channel:
        answered = threading.Event()

        def batches():
            yield s.SymbolizeStreamRequest(id=1, batch=ONE)
            assert answered.wait(ANSWERED_WITHIN)
            a_minute_later()
            time.sleep(1)  # it is looked at meanwhile
            yield s.SymbolizeStreamRequest(id=2, batch=ONE)

        metadata = (("authorization", f"Bearer {TOKEN}"),)
        found = []
        for each in SymbolServiceStub(channel).SymbolizeStream(batches(), metadata=metadata):
            found.append(each.id)
            answered.set()
        assert found == [1, 2]


def test_while_no_descriptor_is_free_nobody_is_struck_and_the_log_says_so_once(monkeypatch, caplog):
    log = logging.getLogger("tests")
    connections = Connections(Limits(unknown_seconds=0.3), QuietLog(log, "closed"), QuietLog(log, "shut out"))
    refused, listed, others = [], os.listdir, threading.enumerate()

    def refuse(path):
        if threading.current_thread() in others:  # of a daemon that another test has ended a moment ago
            return listed(path)
        refused.append(path)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        (host, port) = listener.getsockname()
        (own,) = connected(stack, f"{host}:{port}", 1)
        stack.enter_context(listener.accept()[0])
        connections.let_in(f"ipv4:{host}:{own.getsockname()[1]}", "user")
        stack.enter_context(connections.watching(port))
        with monkeypatch.context() as patch:
            patch.setattr(os, "listdir", refuse)
            assert eventually(lambda: len(refused) > 3)
        (stranger,) = connected(stack, f"{host}:{port}", 1)
        stack.enter_context(listener.accept()[0])
        assert eventually(lambda: is_closed(stranger))
        assert not is_closed(own)
    told = [each.getMessage() for each in caplog.records if each.name == "symd.server"]
    assert told == ["connections are not looked through: too many open files (1 so far)"]


def test_who_asks_for_open_health_may_stay(tmp_path, a_minute_later):
    with served(tmp_path, open_health=True, unknown_seconds=30.0) as address, grpc.insecure_channel(address) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert next(watch).status == 1
        a_minute_later()
        time.sleep(1)  # it is looked at meanwhile
        assert watch.is_active()
        watch.cancel()


def test_one_client_has_no_more_than_its_connections(tmp_path):
    with served(tmp_path, client_connections=3) as address, ExitStack() as stack:
        options = [(("grpc.use_local_subchannel_pool", 1), ("number", number)) for number in range(4)]
        metadata = (("authorization", f"Bearer {TOKEN}"),)
        stubs = [SymbolServiceStub(stack.enter_context(grpc.insecure_channel(address, each))) for each in options]
        for stub in stubs[:3]:
            assert stub.Symbolize(ONE, metadata=metadata).answers
        with user(address) as fourth, pytest.raises(Busy) as caught:
            ask(fourth)
        assert caught.value.metadata["limit"] == "client_connections"
        assert stubs[0].Symbolize(ONE, metadata=metadata).answers


def test_places_are_told_apart_however_they_are_written():
    assert tcp_remote("ipv4:10.0.0.7:41210") == Remote("10.0.0.7", 41210)
    assert tcp_remote("ipv6:%5B::1%5D:5") == tcp_remote("ipv6:[::1]:5") == remote(("::1", 5, 0, 0)) == Remote("::1", 5)
    assert remote(("::ffff:10.0.0.7", 41210, 0, 0)) == Remote("10.0.0.7", 41210)
    assert tcp_remote("unix:") is None


def test_two_thousand_streams_are_bounded_while_others_are_served(tmp_path):
    with served_unix(tmp_path, message_seconds=8.0) as (address, _), neighbour(address), ExitStack() as stack:
        connections = [stack.enter_context(Connection(address)) for _ in range(10)]
        for connection in connections:
            for number in range(200):
                connection.call(STREAM if number % 2 else SYMBOLIZE)
        for connection in connections:
            endings = connection.endings(200, ANSWERED_WITHIN)
            said = b"".join(endings.values())  # what was said once on a connection is said by its number (RFC 7541)
            assert len(endings) == 200
            assert b"waiting_calls" in said or b"message_seconds" in said


CANCELLED = b"grpc-status\x011"
"""A header without index and the length of its value (RFC 7541, section 6.2.2)."""


@contextmanager
def loop_at_work(daemon):
    """The daemon's loop looks at no call while this lasts."""
    begun, over = threading.Event(), threading.Event()

    async def work():
        begun.set()
        over.wait()

    working = threading.Thread(target=daemon.server.wait_for, args=(work(),))
    working.start()
    assert begun.wait(ANSWERED_WITHIN)
    try:
        yield
    finally:
        over.set()
        working.join()


def settle(connection):
    """Wait until the daemon has everything that was sent (RFC 9113, section 6.7)."""
    connection.frame(PING, 0, 0, bytes(8))
    while connection.read_frame(ANSWERED_WITHIN)[:2] != (PING, ACK):
        pass


def test_calls_that_come_while_the_daemon_is_at_work_are_kept(tmp_path):
    with served_unix(tmp_path, message_seconds=0.5) as (address, daemon), ExitStack() as stack:
        with loop_at_work(daemon):
            connections = [stack.enter_context(Connection(address)) for _ in range(10)]
            for connection in connections:
                for _ in range(200):
                    connection.call(SYMBOLIZE)
                settle(connection)
        for connection in connections:
            assert not [each for each in connection.endings(200, ANSWERED_WITHIN).values() if CANCELLED in each]


def test_calls_beyond_those_are_ended_and_a_client_reads_what_that_means(tmp_path):
    with served_unix(tmp_path, pending_calls=5) as (address, daemon), Connection(address) as connection:
        with loop_at_work(daemon), Client(address, timeout=ANSWERED_WITHIN) as client:
            for _ in range(20):
                connection.call(SYMBOLIZE)
            assert all(CANCELLED in each for each in connection.endings(10, ANSWERED_WITHIN).values())
            with pytest.raises(Unavailable) as caught:
                ask(client)
            assert "pending_calls" in caught.value.hint
        with Client(address, timeout=ANSWERED_WITHIN) as client:
            assert eventually_asked(client)


def test_one_client_cannot_take_all_watches_of_health(tmp_path):
    with served(tmp_path, client_watches=2) as address, grpc.insecure_channel(address) as channel:
        begin, everything = health_pb2_grpc.HealthStub(channel).Watch, health_pb2.HealthCheckRequest()
        named, other = shown(TOKEN), shown(OTHER)
        first, second = begin(everything, **named), begin(everything, **named)
        assert [next(first).status, next(second).status] == [1, 1]
        code, reason, metadata = refusal(lambda: next(begin(everything, **named)))
        assert (code, reason, metadata["limit"]) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "BUSY", "client_watches")
        assert begins(begin(everything, **other))
        first.cancel()
        assert eventually(lambda: begins(begin(everything, **named)))
        second.cancel()


def shown(token):
    """How a client that has this token makes its calls."""
    return {"metadata": (("authorization", f"Bearer {token}"),), "timeout": ANSWERED_WITHIN}


def begins(watch):
    """Whether the watch is let in; it is left."""
    try:
        next(watch)
    except grpc.RpcError:
        return False
    finally:
        watch.cancel()
    return True


def test_the_oldest_of_the_address_with_the_most_are_too_many():
    made = [(f"10.0.0.{address}", since) for address, number in ((1, 3), (2, 9), (3, 6)) for since in range(number)]
    strangers = [
        Seen(number, 1, Remote(address, number), ip_address(address), float(since))
        for number, (address, since) in enumerate(made)
    ]
    closed = _too_many(strangers, 11)
    assert sorted((seen.remote.address, seen.since) for seen in closed) == [
        *(("10.0.0.2", float(since)) for since in range(5)),
        *(("10.0.0.3", float(since)) for since in range(2)),
    ]
    assert [seen.since for seen in closed if seen.remote.address == "10.0.0.2"] == [0, 1, 2, 3, 4]
    assert _too_many(strangers, 18) == []
    assert len(_too_many(strangers, 0)) == len(strangers)


def test_two_thousand_connections_to_the_unix_socket_are_bounded(tmp_path):
    with served_unix(tmp_path) as (address, _), neighbour(address), ExitStack() as stack:
        connections = [stack.enter_context(Connection(address, speak=False)) for _ in range(2000)]
        assert eventually(lambda: sum(not each.is_closed(0.001) for each in connections) < 1024)


def test_what_a_client_reads_where_the_daemon_has_as_many_connections_as_it_takes(tmp_path):
    with served_unix(tmp_path, connections=5) as (address, _), ExitStack() as stack:
        for _ in range(6):
            stack.enter_context(Connection(address, speak=False))
        assert eventually(lambda: refused(address) is not None)
        error = refused(address)
        assert "has as many as it takes, its limit connections" in error.message
        assert "has not let you" not in error.message


def refused(address):
    with Client(address, timeout=10) as client:
        try:
            client.server_info()
        except ServerUnavailable as error:
            return error
    return None
