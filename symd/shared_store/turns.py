"""Turns at something, against every other daemon: advisory locks of PostgreSQL, which end with the connection of whoever holds them.

All turns of a daemon are held by one connection, so that a build of minutes keeps none from the pool. To the server they are all one
holder's, so that threads of the daemon first take turns among themselves."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from symd.errors import StoreUnavailable, SymdError
from symd.shared_store.postgresql import Connection, Server

BUILDING: Final = 0x6275696C_64000000
"""Of who makes an index of a module."""
STORING: Final = 0x73746F72_65000000
"""Of who writes or removes objects of a module."""
_FIRST_WAIT: Final = 0.005
_LONGEST_WAIT: Final = 0.1
"""Seconds between two looks whether a turn is free."""
_SIGNED: Final = 1 << 63


class Turns:
    """Safe to use from several threads. Raises ``StoreUnavailable``."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._using = threading.Lock()
        self._connection: Connection | None = None
        self._here: dict[int, _Here] = {}

    def close(self) -> None:
        with self._using:
            self._drop()

    @contextmanager
    def turn(self, kind: int, digest: str) -> Iterator[Turn]:
        """Hold a turn of that kind at a module."""
        key = _key(kind, digest)
        with self._own(key) as waited_here:
            connection, waited = self._taken(key)
            try:
                yield Turn(self, connection, waited=waited or waited_here)
            finally:
                self._given(key, connection)

    @contextmanager
    def _own(self, key: int) -> Iterator[bool]:
        """The same among the threads of this process."""
        with self._using:
            here = self._here.setdefault(key, _Here())
            here.users += 1
        try:
            waited = not here.lock.acquire(blocking=False)
            if waited:
                here.lock.acquire()
            try:
                yield waited
            finally:
                here.lock.release()
        finally:
            with self._using:
                here.users -= 1
                if not here.users:
                    del self._here[key]

    def _taken(self, key: int) -> tuple[Connection, bool]:
        """The connection that holds the lock now, and whether it was waited for."""
        pause, waited = _FIRST_WAIT, False
        while True:
            with self._using:
                connection = self._connected()
                if self._asked("SELECT pg_try_advisory_lock(?)", key):
                    return connection, waited
            waited = True
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_WAIT)

    def _given(self, key: int, connection: Connection) -> None:
        """A connection that is gone has given its locks already."""
        with self._using, suppress(SymdError):
            if connection is self._connection:
                self._asked("SELECT pg_advisory_unlock(?)", key)

    def check(self, connection: Connection) -> None:
        """Raises ``StoreUnavailable`` where a connection that held turns was lost: others may have them."""
        with self._using:
            if connection is not self._connection or not connection.is_silent():
                raise StoreUnavailable(
                    "the catalogue closed the connection that held a turn", where=self._server.where, hint="try again"
                )

    def _connected(self) -> Connection:
        if self._connection is not None and not self._connection.is_silent():
            self._drop()
        if self._connection is None:
            self._connection = self._server.own_connection()
        return self._connection

    def _asked(self, query: str, key: int) -> bool:
        assert self._connection is not None  # noqa: S101 - the caller has made one
        try:
            with self._server.translated():
                return bool(self._connection.execute(query, (key,)).fetchone()[0])
        except SymdError:
            self._drop()
            raise

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Turn:
    """A turn that is held; ``waited``: others had to be waited for."""

    def __init__(self, turns: Turns, connection: Connection, *, waited: bool) -> None:
        self._turns = turns
        self._connection = connection
        self.waited = waited

    def check(self) -> None:
        """Raises ``StoreUnavailable`` where it was lost meanwhile."""
        self._turns.check(self._connection)


class _Here:
    """A lock of this process, and how many hold it or wait."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0


def _key(kind: int, digest: str) -> int:
    """64 bits with a sign, as the server has them: the digest's first, told apart by kind."""
    key = int(digest[:16], 16) ^ kind
    return key - 2 * _SIGNED if key >= _SIGNED else key
