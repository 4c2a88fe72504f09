"""Connections that their other end has reset, and that gRPC has not closed yet: they are seen, counted and ended as all others."""

from __future__ import annotations

import logging
import socket
import struct
from contextlib import ExitStack, contextmanager

import pytest

from symd.config import Limits
from symd.server.connections import Connections
from symd.server.logs import QuietLog
from symd.server.other_end import other_end
from symd.server.peer_names import Remote
from tests.server.test_budgets import eventually

HOSTS = [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
RESET = struct.pack("ii", 1, 0)
"""socket(7), SO_LINGER: a close resets the connection."""
BROUGHT = 15_000


@contextmanager
def accepted_ones(count, family=socket.AF_INET, host="127.0.0.1"):
    """The port here, and connections to it that were reset before anybody accepted them, with the other ends that they had."""
    with socket.create_server((host, 0), family=family, backlog=count) as listener, ExitStack() as stack:
        ends = [reset(*listener.getsockname()[:2]) for _ in range(count)]
        accepted = [stack.enter_context(listener.accept()[0]) for _ in range(count)]
        yield listener.getsockname()[1], accepted, ends


def reset(host, port):
    with socket.create_connection((host, port)) as connection:
        connection.sendall(bytes(BROUGHT))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        return Remote(*connection.getsockname()[:2])


@contextmanager
def watched(port, *, counts_bytes=True, **limits):
    """What is told of, by its limit."""
    told = []
    log = QuietLog(logging.getLogger("tests"), "closed")
    connections = Connections(Limits(**limits), log, log)
    connections.refusing = lambda _reason, limit: told.append(limit)
    with connections.watching(port, counts_bytes=counts_bytes):
        yield told


@pytest.mark.parametrize(("family", "host"), HOSTS)
def test_where_a_connection_came_from_is_known_after_a_reset(family, host):
    with accepted_ones(2, family, host) as (_, accepted, ends):
        for connection in accepted:
            with pytest.raises(OSError, match="not connected"):
                connection.getpeername()
        assert [other_end(each) for each in accepted] == ends


@pytest.mark.parametrize(("family", "host"), HOSTS)
def test_a_socket_without_a_connection_has_no_other_end(family, host):
    with socket.create_server((host, 0), family=family) as listener, pytest.raises(OSError, match="not connected"):
        other_end(listener)


def test_of_those_that_are_too_many_nothing_is_left_to_read():
    with accepted_ones(20) as (port, accepted, _), watched(port, unknown_connections=5, unknown_bytes=1 << 30):
        assert eventually(lambda: sum(map(has_something_to_read, accepted)) == 5)


def test_their_bytes_count():
    with accepted_ones(20) as (port, accepted, _), watched(port, unknown_bytes=BROUGHT * 19) as told:
        assert eventually(lambda: told == ["unknown_bytes"])
        assert eventually(lambda: not any(map(has_something_to_read, accepted)))


@pytest.mark.parametrize("counts_bytes", [True, False], ids=["of gRPC", "of HTTP"])
def test_they_count_as_come(counts_bytes):
    with (
        accepted_ones(20) as (port, _, _),
        watched(port, counts_bytes=counts_bytes, unknown_connection_rate=19, unknown_bytes=1 << 30) as told,
    ):
        assert eventually(lambda: told == ["unknown_connection_rate"])


def has_something_to_read(connection):
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except OSError:
        return False
