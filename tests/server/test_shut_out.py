"""Addresses of which too many calls are refused: their connections end and new ones are not taken, for a while; whoever was let in stays."""

from __future__ import annotations

import errno
import logging
import socket
from contextlib import contextmanager, suppress

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from symd.config import Limits
from symd.errors import Busy
from symd.server import connections, packet_filter
from symd.server.audit import AuditLog
from symd.server.call import Call
from symd.server.peer_names import remote
from symd.server.shut_out import NETWORKS, ShutOut, network_of
from symd.v1.symbol_service_pb2_grpc import SymbolServiceStub
from tests.server.http2 import END_HEADERS, END_STREAM, HEADERS, PREFACE, RST_STREAM, SETTINGS, frame, headers
from tests.server.test_budgets import ONE, SYMBOLIZE, eventually
from tests.server.test_connections import TOKEN, ask, eventually_asked, is_closed, served, user
from tests.server.test_packet_filter import DROPPED_WITHIN

SHORT = 0.5
"""Seconds for which an address is shut out, where a test waits for their end."""
LONG = 600.0
NOBODY = "symd.v1.SymbolService.Nonexistent"
CANCEL = b"\0\0\0\x08"
"""RFC 9113, section 7."""


def test_the_call_beyond_as_many_as_a_second_may_have_shuts_out():
    account, here, there = ShutOut(Limits(refused_calls=3)), network_of("10.0.0.7"), network_of("10.0.0.8")
    assert [account.count(here, 5.0) for _ in range(3)] == [False] * 3
    assert not account.count(here, 6.0)
    assert [account.count(here, 6.5) for _ in range(4)] == [False, False, True, False]
    assert account.limit(here, 7.0) != ""
    assert account.limit(there, 7.0) == ""
    assert account.networks(7.0) == (here,)


def test_it_ends():
    account, here = ShutOut(Limits(refused_calls=1, refused_seconds=10.0)), network_of("10.0.0.7")
    assert [account.count(here, 5.0) for _ in range(2)] == [False, True]
    assert account.limit(here, 14.9) != ""
    assert account.limit(here, 15.0) == ""
    assert account.networks(15.0) == ()
    assert [account.count(here, 15.0) for _ in range(2)] == [False, True]


def test_no_more_networks_than_a_filter_has_room_for():
    account = ShutOut(Limits(refused_calls=1))
    networks = [network_of(f"10.0.{number >> 8}.{number & 255}") for number in range(NETWORKS + 5)]
    for network in networks:
        account.count(network, 5.0)
        account.count(network, 5.0)
    assert account.networks(5.0) == tuple(networks[5:])


def test_an_address_of_ipv6_is_one_of_its_subscriber_and_a_mapped_one_is_ipv4():
    assert network_of("2001:db8:1:2::3") == network_of("2001:db8:1:2:ffff::4") != network_of("2001:db8:1:3::3")
    assert str(network_of(remote(("::ffff:10.0.0.7", 1, 0, 0)).address)) == "10.0.0.7"
    assert network_of("fe80::1%eth0") == network_of("fe80::2")


def test_a_connection_is_reset_with_all_that_has_come_on_it():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as stranger:
        accepted, _ = server.accept()
        with accepted:
            stranger.sendall(bytes(1000))
            assert accepted.recv(1)
            assert connections._reset(accepted)
            with pytest.raises(ConnectionResetError):
                accepted.recv(1)
            with pytest.raises(ConnectionResetError):
                stranger.recv(1)


def test_lines_about_calls_of_an_address_that_is_shut_out_are_few(caplog):
    audit, call = AuditLog(), Call("symd.v1.ModuleService.DeleteModule", "ipv4:10.0.0.7:1", None)
    with caplog.at_level(logging.INFO, "symd.audit"):
        for _ in range(1000):
            audit.write(call, Busy.reason)
    assert 0 < len(caplog.messages) < 1000 // 2


def opened(address, source="127.0.0.1"):
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), DROPPED_WITHIN, source_address=(source, 0))


def connects(address, source="127.0.0.1"):
    try:
        with opened(address, source):
            return True
    except TimeoutError:
        return False


def calls(method, ending, numbers, *further):
    """The frames of calls with these numbers on their connection."""
    made = []
    for stream in (2 * number + 1 for number in numbers):
        flags = END_HEADERS | (END_STREAM if ending == "ended" else 0)
        made.append(frame(HEADERS, flags, stream, headers(method, *further)))
        if ending == "reset":
            made.append(frame(RST_STREAM, 0, stream, CANCEL))
    return b"".join(made)


@contextmanager
def flooded(address, method=SYMBOLIZE, ending="ended", *further):
    """A stranger's connection with calls until the daemon closes it."""
    with opened(address) as connection:
        connection.sendall(PREFACE + frame(SETTINGS, 0, 0))
        with suppress(OSError):
            for first in range(0, 100_000, 100):
                connection.settimeout(20)
                connection.sendall(calls(method, ending, range(first, first + 100), *further))
                if is_closed(connection):
                    break
        yield connection


WRONG = ("authorization", "Bearer no-token-of-this-daemon")


@pytest.mark.parametrize(
    ("method", "ending", "further"),
    [
        (SYMBOLIZE, "ended", ()),
        (SYMBOLIZE, "open", ()),
        (SYMBOLIZE, "reset", ()),
        (SYMBOLIZE, "ended", (WRONG,)),
        (NOBODY, "ended", ()),
    ],
    ids=["no token", "no message", "reset", "wrong token", "no such method"],
)
def test_a_stranger_that_calls_without_end_is_shut_out_and_users_are_not(tmp_path, method, ending, further):
    with served(tmp_path, refused_seconds=LONG) as address, user(address) as before:
        assert ask(before)
        with flooded(address, method, ending, *further) as stranger:
            assert eventually(lambda: is_closed(stranger))
            assert eventually(lambda: not connects(address))
            assert connects(address, "127.0.0.2")
            assert ask(before)


def test_afterwards_the_address_may_connect_again(tmp_path):
    with served(tmp_path, refused_calls=20, refused_seconds=SHORT) as address:
        with flooded(address) as stranger:
            assert eventually(lambda: is_closed(stranger))
        assert eventually(lambda: connects(address))
        with user(address) as newly:
            assert eventually_asked(newly)  # calls of before that a busy daemon refuses only now shut out once more


def is_one_refused(check):
    """Of more calls than a second may have, made at once: one after the other may be as few on a busy machine."""
    calls = [check.future(health_pb2.HealthCheckRequest(), timeout=60) for _ in range(100)]
    return any(call.exception() is not None for call in calls)


def test_who_asks_for_open_health_without_end_is_shut_out(tmp_path):
    with served(tmp_path, open_health=True, refused_calls=20, refused_seconds=LONG) as address:
        with grpc.insecure_channel(address) as channel:
            check = health_pb2_grpc.HealthStub(channel).Check
            for _ in range(20):
                assert check(health_pb2.HealthCheckRequest(), timeout=60).status == 1
            assert eventually(lambda: is_one_refused(check))
        assert eventually(lambda: not connects(address))


def test_refused_calls_on_a_connection_on_which_somebody_was_let_in_shut_nobody_out(tmp_path):
    metadata = (("authorization", f"Bearer {TOKEN}"),)
    with served(tmp_path, refused_calls=20) as address, grpc.insecure_channel(address) as channel:
        symbolize = SymbolServiceStub(channel).Symbolize
        assert symbolize(ONE, metadata=metadata).answers
        for _ in range(100):
            with pytest.raises(grpc.RpcError) as caught:
                symbolize(ONE, timeout=10)
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert symbolize(ONE, metadata=metadata).answers
        assert connects(address)


def test_the_call_that_is_one_too_many_reads_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "PERIOD", LONG)  # else the connection may be reset before that is sent
    with served(tmp_path, refused_calls=20) as address, opened(address) as connection:
        connection.sendall(PREFACE + frame(SETTINGS, 0, 0) + calls(SYMBOLIZE, "ended", range(200)))
        received = b""
        connection.settimeout(20)
        while b"refused_calls" not in received:
            data = connection.recv(1 << 16)
            assert data, "the connection ended before the limit was said"
            received += data


def test_a_method_that_nobody_serves_is_told_as_before(tmp_path):
    with served(tmp_path) as address, grpc.insecure_channel(address) as channel:
        call = channel.unary_unary("/symd.v1.SymbolService/Nonexistent")
        with pytest.raises(grpc.RpcError) as caught:
            call(b"", timeout=10)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert caught.value.details() == "Method not found!"


def test_where_the_kernel_takes_no_filter_connections_are_closed_as_they_come(tmp_path, monkeypatch, caplog):
    def refuse(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(packet_filter, "drop", refuse)
    with served(tmp_path, refused_calls=20, refused_seconds=LONG) as address, user(address) as before:
        assert ask(before)
        with caplog.at_level(logging.WARNING), flooded(address) as stranger:
            assert eventually(lambda: is_closed(stranger))
            with opened(address) as again, opened(address, "127.0.0.2") as neighbour:
                assert eventually(lambda: is_closed(again))
                assert not is_closed(neighbour)
        assert ask(before)
    assert len([each for each in caplog.messages if "takes no packet filter" in each]) == 1
    assert any(
        "shut out an address: 127.0.0.1 for 600 s" in each and "(refused_calls)" in each for each in caplog.messages
    )
