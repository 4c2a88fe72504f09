"""Who has many calls, streams or connections leaves room for others."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from symd.client import Client
from symd.errors import ServerUnavailable, Unavailable
from symd.model.addresses import ByAddress
from symd.server.access_file import new_token, token_line
from symd.server.config import Config, ListenConfig, parse_rights
from symd.server.listening import listening
from symd.server.server import build_daemon
from tests.server.fakes import DIGEST, GOOD, FakeEngine
from tests.server.fixed_bounds import bounded
from tests.server.http2 import ACK, PING, Connection
from tests.server.test_budgets import ANSWERED_WITHIN, ENOUGH, STREAM, SYMBOLIZE, eventually, neighbour
from tests.server.test_budgets import served as served_unix
from tests.server.test_calls import refusal

TOKEN, OTHER = new_token(), new_token()


@contextmanager
def served(tmp_path, **limits):
    """The address of a daemon over TCP that knows two tokens."""
    access = tmp_path / "access"
    access.touch(0o600)
    may = parse_rights("read")
    access.write_text(f"{token_line('user', may, TOKEN)}\n{token_line('other', may, OTHER)}\n")
    listen, engine = ListenConfig(access=access), FakeEngine()
    engine.add(GOOD)
    with bounded(**ENOUGH | limits) as limits:
        config = Config(store=Path("/nonexistent"), workers=4, streams=3, grace=1.0, listen=listen, limits=limits)
        daemon = build_daemon(engine, config)
        with listening(daemon.server, "127.0.0.1:0", daemon.authenticator) as bound:
            daemon.server.start()
            try:
                yield bound
            finally:
                daemon.stop(0.2)


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
            assert b"has waited longest" in said or b"no message came" in said


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
        assert "once it reaches its limit connections" in error.message
        assert "has not let you" not in error.message


def refused(address):
    with Client(address, timeout=10) as client:
        try:
            client.server_info()
        except ServerUnavailable as error:
            return error
    return None
