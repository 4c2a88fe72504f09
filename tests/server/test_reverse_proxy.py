"""nginx of samples/proxy before a daemon: users are answered through it, and whoever opens more connections or calls than it takes is refused there."""

from __future__ import annotations

import grp
import hashlib
import os
import socket
import ssl
import threading
from contextlib import ExitStack, contextmanager, suppress

import pytest

from symd.client import Client
from symd.config import Limits
from symd.errors import Unauthenticated
from symd.model.addresses import ByAddress
from symd.rpc.channel import Credentials
from symd.server.access_file import new_token, token_line
from symd.server.config import parse_rights
from tests.server.authority import Authority
from tests.server.fakes import DIGEST
from tests.server.http2 import END_HEADERS, END_STREAM, HEADERS, Connection, headers
from tests.server.reverse_proxy import CONNECTIONS, USER, proxied
from tests.server.test_authentication import served
from tests.server.test_budgets import ENOUGH, STREAM, SYMBOLIZE, eventually
from tests.server.test_connections import settle

TOKEN = new_token()
STRANGER = "127.0.0.2"
CALLS = 128
"""That one address may have open at a time, by the file."""
ANSWERS = 30


@pytest.fixture
def proxy(folder, tmp_path):
    """(its address, where its log is, whom its clients trust)"""
    authority, access = Authority(tmp_path), tmp_path / "access"
    access.touch(0o600)
    access.write_text(token_line("user", parse_rights("read,write"), TOKEN) + "\n")
    group = grp.getgrnam(USER).gr_gid if os.geteuid() == 0 else os.getegid()
    listen = {"socket_group": group, "access": access}
    with (
        served(f"unix:{folder}/symd.sock", Limits(**ENOUGH), **listen) as daemon,
        proxied(folder, daemon, *authority.issue("host")) as address,
    ):
        yield address, folder / "nginx.log", authority.certificate


def user(proxy, token=TOKEN):
    return Client(proxy[0], timeout=60, credentials=Credentials(token, ca=str(proxy[2])))


def ask(client):
    return client.symbolize_one(DIGEST, ByAddress(0x150)).frames


@contextmanager
def stranger(proxy):
    """A connection from another address than users'."""
    context = ssl.create_default_context(cafile=str(proxy[2]))
    context.set_alpn_protocols(["h2"])
    with opened(proxy) as plain, context.wrap_socket(plain, server_hostname="localhost") as made:
        yield Connection(made)


def opened(proxy):
    return socket.create_connection(("127.0.0.1", int(proxy[0].rpartition(":")[2])), 60, (STRANGER, 0))


def test_a_user_asks_and_adds_a_module_through_it(proxy):
    data = b"FAKE" + os.urandom(8 << 20)
    with user(proxy) as client:
        assert ask(client)
        client.add(data)
        assert client.object_data(hashlib.sha256(data).hexdigest(), "") == data


@pytest.mark.parametrize("token", [None, "wrong"])
def test_nobody_is_let_in_without_a_token_though_nginx_may_open_the_socket(proxy, token):
    with user(proxy, token) as client, pytest.raises(Unauthenticated):
        client.server_info()


def test_connections_beyond_its_own_are_closed_and_a_user_is_answered(proxy):
    with user(proxy) as client, ExitStack() as stack:
        assert ask(client)
        silent = []
        for _ in range(2 * CONNECTIONS):
            silent.append(stack.enter_context(opened(proxy)))
            silent[-1].setblocking(False)
        assert eventually(lambda: ask(client) and sum(map(is_open, silent)) < CONNECTIONS)
        assert ask(client)


def is_open(connection):
    try:
        return bool(connection.recv(1))
    except BlockingIOError:
        return True
    except OSError:
        return False


def test_calls_that_one_address_holds_open_beyond_its_share_are_refused(proxy):
    with user(proxy) as client, stranger(proxy) as one, stranger(proxy) as other:
        assert ask(client)
        for connection in (one, other):
            settle(one)  # nginx has its calls before the other's
            for _ in range(CALLS * 3 // 4):
                connection.call(STREAM, ("authorization", f"Bearer {TOKEN}"))
        assert any(b"429" in payload for *_, payload in iter(other.read_frame, None))
        assert ask(client)
    assert "limiting connections by zone" in proxy[1].read_text()


def test_a_user_is_answered_while_a_stranger_calls_without_end(proxy):
    over = threading.Event()

    def flood():
        while not over.is_set():
            with suppress(OSError), stranger(proxy) as connection:
                for number in range(500):
                    connection.frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, headers(SYMBOLIZE))

    flooding = threading.Thread(target=flood)
    with user(proxy) as client:
        assert ask(client)
        flooding.start()
        try:
            assert eventually(lambda: ask(client) and "limiting requests" in proxy[1].read_text())
            assert all(ask(client) for _ in range(ANSWERS))
        finally:
            over.set()
            flooding.join()
