"""Strangers that make no call and bring bytes without end are shut out; whoever is let in brings as much as he likes."""

from __future__ import annotations

import hashlib
import socket
import time
from contextlib import closing, suppress

import grpc
import pytest

from symd.client import upload_requests
from symd.config import Limits
from symd.server import connections
from symd.server.authentication import Authenticator
from symd.server.peer_names import Remote
from symd.server.shut_out import network_of
from symd.server.unknown_bytes import PERIOD, Stranger, UnknownBytes, received
from symd.v1.module_service_pb2 import UploadHeader
from symd.v1.module_service_pb2_grpc import ModuleServiceStub
from tests.server.authority import Authority
from tests.server.http2 import PING, PREFACE, SETTINGS, WINDOW_UPDATE, frame
from tests.server.test_budgets import eventually
from tests.server.test_connections import TOKEN, ask, is_closed, served, user
from tests.server.test_shut_out import LONG, connects, opened

HERE, THERE = network_of("10.0.0.7"), network_of("10.0.0.8")
SIZE = 8 << 20
"""Bytes of an upload."""
FEW = 32 << 10
"""Bytes that the kernel takes at once, however slowly a busy daemon reads them; a flood is then none of how fast the machine is."""


def stranger(count, port=1, network=HERE):
    return Stranger(Remote(str(network), port), network, count)


def counted(most=100):
    return UnknownBytes(Limits(unknown_bytes=most))


def test_an_address_is_beyond_the_limit_with_all_its_connections_together():
    account = counted()
    assert account.beyond({1: stranger(60), 2: stranger(60, 2, THERE)}, (), 5.0) == []
    assert account.beyond({1: stranger(60), 2: stranger(60, 2, THERE), 3: stranger(41, 3)}, (), 5.1) == [HERE]


def test_connections_that_ended_count():
    account = counted()
    account.beyond({1: stranger(60)}, (), 5.0)
    account.beyond({}, (), 5.1)
    assert account.beyond({2: stranger(60, 2)}, (), 5.2) == [HERE]


def test_whoever_is_let_in_counts_no_more_also_when_his_connection_has_ended():
    account, client = counted(), stranger(90)
    account.beyond({1: client}, (), 5.0)
    assert account.beyond({1: stranger(5000)}, {client.remote}, 5.1) == []
    account.beyond({2: stranger(90, 2)}, (), 5.2)
    assert account.beyond({}, {stranger(90, 2).remote}, 5.3) == []
    assert account.beyond({3: stranger(90, 3)}, (), 5.4) == []


def test_who_stays_and_brings_little_at_a_time_is_not_beyond_the_limit():
    account = counted()
    for number in range(20):
        assert account.beyond({1: stranger(90 * number)}, (), 5.0 + PERIOD * number) == []
    assert account.beyond({1: stranger(90 * 19 + 101)}, (), 5.1 + PERIOD * 19) == [HERE]


def test_the_kernel_says_how_much_a_connection_has_brought():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            client.sendall(bytes(1000))
            assert eventually(lambda: received(accepted) == 1000)
    first, second = socket.socketpair()
    with closing(first), closing(second):
        assert received(first) == 0


@pytest.mark.parametrize("meanwhile", ["closed", "another connection's", "a local socket's"])
def test_a_connection_that_was_closed_meanwhile_is_not_taken_for_another(meanwhile):
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        first, second = socket.socketpair()
        descriptor = {"closed": 1 << 20, "another connection's": client.fileno(), "a local socket's": first.fileno()}
        seen = connections.Seen(descriptor[meanwhile], 1, Remote("10.0.0.7", 1), HERE, 0.0)
        with closing(first), closing(second), pytest.raises(OSError, match="Bad"), connections._still(seen):
            pass


@pytest.mark.parametrize(
    "data",
    [frame(PING, 0, 0, bytes(8)), frame(SETTINGS, 0, 0), frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1")],
    ids=["pings", "settings", "windows"],
)
def test_a_stranger_whose_frames_are_no_calls_is_shut_out_and_users_are_not(tmp_path, data):
    with served(tmp_path, refused_seconds=LONG, unknown_bytes=FEW) as address, user(address) as before:
        assert ask(before)
        assert eventually(lambda: bring(address, data * 20_000) or not connects(address))
        assert connects(address, "127.0.0.2")
        assert ask(before)


def bring(address, data):
    """Send it again and again on a connection until that is closed, which gRPC does for many pings too."""
    with suppress(OSError), opened(address) as connection:
        connection.sendall(PREFACE + frame(SETTINGS, 0, 0))
        while not is_closed(connection):
            connection.settimeout(5)
            connection.sendall(data)


@pytest.fixture
def looked_at_late(monkeypatch):
    """Calls wait while the daemon looks at connections several times."""
    admit = Authenticator.admit

    def late(*arguments):
        time.sleep(0.5)
        admit(*arguments)

    monkeypatch.setattr(Authenticator, "admit", late)


@pytest.mark.usefixtures("looked_at_late")
@pytest.mark.parametrize("uploads", [1, 12])
@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "over TLS"])
def test_who_begins_with_large_uploads_is_not_shut_out(tmp_path, encrypted, uploads):
    authority = Authority(tmp_path) if encrypted else None
    tls = dict(zip(("tls_certificate", "tls_key"), authority.issue("daemon"), strict=True)) if authority else None
    with served(tmp_path, rights="read,write", tls=tls) as address, channel(address, authority) as opened_channel:
        upload = ModuleServiceStub(opened_channel).UploadModule
        metadata = (("authorization", f"Bearer {TOKEN}"),)
        begun = [upload.future(parts(number), metadata=metadata, timeout=60) for number in range(uploads)]
        # the daemon has read all of it
        assert {each.exception().details().partition(" (")[0] for each in begun} == {"no reader claims these bytes"}


def channel(address, authority):
    if authority is None:
        return grpc.insecure_channel(address)
    return grpc.secure_channel(
        address.removeprefix("tls:"), grpc.ssl_channel_credentials(authority.certificate.read_bytes())
    )


def parts(number):
    """The messages of an upload."""
    data = bytes([number]) * SIZE
    return upload_requests(UploadHeader(sha256=hashlib.sha256(data).hexdigest(), size_bytes=SIZE), data)
