"""A PostgreSQL server of Debian's package for the tests of one run, on a Unix socket in a folder of its own."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path

import psycopg
import pytest

from tests.tools import UNDER_CI

_USER = "postgres"
_LONG = 60.0
"""Seconds after which a server that does not start is given up."""
_SETTINGS = {"fsync": "off", "full_page_writes": "off", "max_connections": "200", "shared_buffers": "16MB"}


@cache
def programs() -> Path:
    """The folder of the newest server's programs, which Debian puts beside PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    missing = "PostgreSQL's server is not installed (Debian's package postgresql)"
    if UNDER_CI:
        pytest.fail(missing)
    pytest.skip(missing)


class PostgresServer:
    """A server with data of its own in ``folder``, which may be stopped and started again."""

    def __init__(self, folder: Path, *, fsync: bool = False) -> None:
        self._settings = {**_SETTINGS, "fsync": "on"} if fsync else _SETTINGS
        self._folder = folder
        self._data = folder / "data"
        self._numbers = itertools.count()
        self._process: subprocess.Popen[bytes] | None = None
        folder.chmod(0o755)
        if os.geteuid() == 0:
            shutil.chown(folder, _USER, _USER)
        self._as_server("initdb", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "-U", _USER, "-D", self._data)  # fmt: skip
        self.start()

    def start(self) -> None:
        settings = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        command = ["postgres", "-D", self._data, "-k", self._folder, "-c", "listen_addresses=127.0.0.1", "-p", str(self.port), *settings]  # fmt: skip
        self._process = self._begun(*command)
        deadline = time.monotonic() + _LONG
        while True:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=2).close()
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, (self._folder / "log").read_text()[-2000:]
                assert self._process.poll() is None, (self._folder / "log").read_text()[-2000:]
                time.sleep(0.05)
            else:
                return

    def stop(self, *, at_once: bool = True) -> None:
        """End it as a machine that loses power does, or in order."""
        if self._process is not None:
            pid = int((self._data / "postmaster.pid").read_text().split()[0])
            os.kill(pid, signal.SIGQUIT if at_once else signal.SIGINT)
            self._process.wait(_LONG)
            self._process = None

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """While it lasts none of the server's processes runs; connections stay."""
        pids = self._pids()
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            assert self._process is not None
            for pid in (*pids, self._process.pid):  # runuser stops when its child does
                os.kill(pid, signal.SIGCONT)

    def _pids(self) -> list[int]:
        first = int((self._data / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        return [first, *map(int, children)]

    @cached_property
    def port(self) -> int:
        """Of its sockets, on the disk and on loopback: one that nobody has, and the same after each start."""
        with socket.create_server(("127.0.0.1", 0)) as listening:
            return int(listening.getsockname()[1])

    def url(self, database: str) -> str:
        return f"postgresql://{_USER}@/{database}?host={self._folder}&port={self.port}"

    def database(self, template: str = "template1") -> str:
        """The URL of a new database, which has what ``template`` has."""
        name = f"t{next(self._numbers)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")  # type: ignore[arg-type]
        return self.url(name)

    def _as_server(self, program: str, *arguments: object) -> None:
        process = self._begun(program, *arguments)
        assert process.wait(_LONG) == 0, (self._folder / "log").read_text()[-2000:]

    def _begun(self, program: str, *arguments: object) -> subprocess.Popen[bytes]:
        command = [str(programs() / program), *map(str, arguments)]
        if os.geteuid() == 0:  # the server refuses to be root
            command = ["runuser", "-u", _USER, "--", *command]
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL)


@contextmanager
def running(*, fsync: bool = False) -> Iterator[PostgresServer]:
    """A server, until the end of the block; its folder has a short name, as a socket's must. With ``fsync`` it waits for the disk."""
    programs()
    with tempfile.TemporaryDirectory(prefix="pg", dir="/tmp") as folder:
        server = PostgresServer(Path(folder), fsync=fsync)
        try:
            yield server
        finally:
            server.stop()
