"""A stranger that sends calls and other frames to a daemon's TCP port without end: its owner is answered all the time."""

from __future__ import annotations

import socket
import threading
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from symd.model.rights import parse_rights
from symd.server.access_file import new_token, token_line
from tests.daemon.processes import serving
from tests.server.http2 import PING, PREFACE, SETTINGS, frame
from tests.server.test_budgets import SYMBOLIZE, eventually
from tests.server.test_connection_rate import storm
from tests.server.test_shut_out import calls, connects

ANSWERS = 30
CALLS = range(5000)
"""Of one connection of the flood."""
PINGS = 300_000
"""The same for frames that are no calls."""


@contextmanager
def guarded(folder, *limits):
    """A daemon with a Unix socket, and a TCP port that takes tokens; and the port's address."""
    access = folder / "access"
    access.touch(0o600)
    access.write_text(token_line("user", parse_rights("read"), new_token()) + "\n")
    options = ("--address", "127.0.0.1:0", "--access", str(access), "--metrics", f"unix:{folder}/metrics")
    bounds = (part for limit in ("refused_seconds=600", *limits) for part in ("--limit", limit))
    with serving(folder, *options, *bounds) as daemon:
        yield daemon, daemon.process.stdout.readline().split()[-1]


class Flood:
    """Connections one after the other, each with as much of the data as it takes, until it is left."""

    def __init__(self, address, data):
        host, _, port = address.rpartition(":")
        self._where = host, int(port)
        self._data = PREFACE + frame(SETTINGS, 0, 0) + data
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._over.set()
        self._thread.join()

    def _go_on(self):
        while not self._over.is_set():
            with suppress(OSError), closing(socket.create_connection(self._where, 1)) as connection:
                connection.sendall(self._data)
                while connection.recv(1 << 16):
                    pass


@pytest.mark.parametrize(
    ("data", "limit"),
    [
        (calls(SYMBOLIZE, "reset", CALLS), "refused_calls"),
        (calls(SYMBOLIZE, "ended", CALLS), "refused_calls"),
        (frame(PING, 0, 0, bytes(8)) * PINGS, "unknown_bytes"),
        (frame(SETTINGS, 0, 0) * PINGS, "unknown_bytes"),
    ],
    ids=["calls that are reset", "calls that end", "pings", "settings"],
)
def test_the_owner_is_answered_while_a_stranger_goes_on_without_end(tmp_path, data, limit):
    with guarded(tmp_path) as (daemon, address), daemon.client() as owner:
        owner.server_info()
        with Flood(address, data):
            for _ in range(ANSWERS):
                owner.server_info()
            assert eventually(lambda: not connects(address))
            for _ in range(ANSWERS):
                owner.server_info()
        assert f'symd_refusals_total{{limit="{limit}",reason="BUSY"}}' in metrics(f"{tmp_path}/metrics")


def test_the_owner_is_answered_beside_a_storm_of_connections_which_is_thinned(tmp_path):
    with guarded(tmp_path, "unknown_connection_rate=30") as (daemon, address), daemon.client() as owner:
        owner.server_info()
        with storm(address):
            assert eventually(lambda: 'limit="unknown_connection_rate"' in metrics(f"{tmp_path}/metrics"))
            for _ in range(ANSWERS):
                owner.server_info()
        assert eventually(lambda: descriptors_of(daemon.process.pid) < 100)


def descriptors_of(process):
    return len(list(Path(f"/proc/{process}/fd").iterdir()))


def metrics(path):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        return b"".join(iter(lambda: connection.recv(1 << 16), b"")).decode()
