"""Strangers who reach the port: however many connections they open, users get in; and who has many calls or streams leaves room."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from symd.channel import Credentials
from symd.client import Client
from symd.config import Config, Doors, Limits
from symd.errors import Busy, ServerUnavailable
from symd.model.addresses import ByAddress
from symd.model.rights import parse_rights
from symd.service.access_file import new_token, token_line
from symd.service.addresses import listening
from symd.service.peer_names import Remote, remote, tcp_remote
from symd.service.server import build_daemon
from symd.v1 import symbol_service_pb2 as s
from symd.v1.symbol_service_pb2_grpc import SymbolServiceStub
from tests.service.fakes import DIGEST, GOOD, FakeEngine
from tests.service.http2 import PREFACE, Connection
from tests.service.test_budgets import ANSWERED_WITHIN, ONE, STREAM, SYMBOLIZE, eventually, neighbour
from tests.service.test_budgets import served as served_unix

TOKEN = new_token()


@contextmanager
def served(tmp_path, address="127.0.0.1:0", *, open_health=False, **limits):
    """The address of a daemon over TCP that knows one token."""
    access = tmp_path / "access"
    access.touch(0o600)
    access.write_text(token_line("user", parse_rights("read"), TOKEN) + "\n")
    doors = Doors(access=access, open_health=open_health)
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
    """What it is answered, once there is a connection."""
    until = time.monotonic() + 20
    while True:
        try:
            return ask(client)
        except ServerUnavailable:
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


def test_a_connection_on_which_nobody_is_let_in_is_closed_and_a_users_stays(tmp_path):
    with served(tmp_path, unknown_seconds=0.5) as address, user(address) as client, ExitStack() as stack:
        assert ask(client)
        (stranger,) = connected(stack, address, 1)
        with grpc.insecure_channel(address) as channel:
            with pytest.raises(grpc.RpcError) as caught:
                SymbolServiceStub(channel).Symbolize(ONE, timeout=10)
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
            states = []
            channel.subscribe(states.append)
            assert eventually(lambda: grpc.ChannelConnectivity.IDLE in states)
        assert eventually(lambda: is_closed(stranger))
        assert ask(client)


def test_a_user_whose_stream_is_quiet_is_not_closed(tmp_path):
    with served(tmp_path, "[::1]:0", unknown_seconds=0.3) as address, grpc.insecure_channel(address) as channel:
        over = threading.Event()

        def batches():
            yield s.SymbolizeStreamRequest(id=1, batch=ONE)
            over.wait(2)
            yield s.SymbolizeStreamRequest(id=2, batch=ONE)

        metadata = (("authorization", f"Bearer {TOKEN}"),)
        found = [each.id for each in SymbolServiceStub(channel).SymbolizeStream(batches(), metadata=metadata)]
        assert found == [1, 2]


def test_who_asks_for_open_health_may_stay(tmp_path):
    with served(tmp_path, open_health=True, unknown_seconds=0.3) as address, grpc.insecure_channel(address) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert next(watch).status == 1
        time.sleep(1.5)
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
    """The strangers have the neighbour's name here, the socket's owner, so that the call which is ended because too many wait may
    be the neighbour's own, at the moment in which its message comes."""
    with (
        served_unix(tmp_path, message_seconds=8.0) as (address, _),
        neighbour(address, cancelled_at_most=1),
        ExitStack() as stack,
    ):
        connections = [stack.enter_context(Connection(address)) for _ in range(10)]
        for connection in connections:
            for number in range(200):
                connection.call(STREAM if number % 2 else SYMBOLIZE)
        for connection in connections:
            endings = connection.endings(200, ANSWERED_WITHIN)
            said = b"".join(endings.values())  # what was said once on a connection is said by its number (RFC 7541)
            assert len(endings) == 200
            assert b"waiting_calls" in said or b"message_seconds" in said


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
        assert "has as many as it takes (its limit connections)" in error.message
        assert "has not let you" not in error.message


def refused(address):
    with Client(address, timeout=10) as client:
        try:
            client.server_info()
        except ServerUnavailable as error:
            return error
    return None
