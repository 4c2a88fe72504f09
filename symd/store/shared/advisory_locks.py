"""Locks for modules against every other daemon: advisory locks of PostgreSQL, which end with the connection of whoever
holds them.

All locks of a daemon are held by one connection, so that a build of minutes keeps none from the pool. To the server
they are all one holder's, so that threads of the daemon first exclude one another."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from symd.errors import StoreUnavailable, SymdError
from symd.store.shared.postgresql import PostgresConnection, PostgresDatabase

BUILDING: Final = 0x6275696C_64000000
"""The kind of lock that is held by who makes an index of a module: a number that is combined with the digest's first 64
bits."""
STORING: Final = 0x73746F72_65000000
"""The kind of lock that is held by who writes or removes objects of a module: a number that is combined with the
digest's first 64 bits."""
_FIRST_WAIT: Final = 0.005
_LONGEST_WAIT: Final = 0.1
"""Seconds between two looks whether a lock is free."""
_SIGNED: Final = 1 << 63


class AdvisoryLocks:
    """Locks for modules against every other daemon, held by one connection to PostgreSQL. Safe to use from several
    threads. Raises ``StoreUnavailable``."""

    def __init__(self, server: PostgresDatabase) -> None:
        self._server = server
        self._using = threading.Lock()
        self._connection: PostgresConnection | None = None
        self._local: dict[int, _LocalLock] = {}

    def close(self) -> None:
        with self._using:
            self._drop()

    @contextmanager
    def hold(self, kind: int, digest: str, seconds: float = math.inf) -> Iterator[HeldLock]:
        """Hold a module's lock of the kind ``BUILDING`` or ``STORING``. Raises TimeoutError where another has it for so
        many seconds more."""
        key, until = _key(kind, digest), time.monotonic() + seconds
        with self._held_locally(key, until) as waited_here:
            connection, waited = self._acquired(key, until)
            try:
                yield HeldLock(self, connection, waited=waited or waited_here)
            finally:
                self._release(key, connection)

    @contextmanager
    def _held_locally(self, key: int, until: float) -> Iterator[bool]:
        """Hold a key's lock among the threads of this process; whether it was waited for. Raises TimeoutError."""
        with self._using:
            local = self._local.setdefault(key, _LocalLock())
            local.users += 1
        try:
            waited = not local.lock.acquire(blocking=False)
            if waited and not local.lock.acquire(timeout=_seconds_left(until)):
                raise TimeoutError
            try:
                yield waited
            finally:
                local.lock.release()
        finally:
            with self._using:
                local.users -= 1
                if not local.users:
                    del self._local[key]

    def _acquired(self, key: int, until: float) -> tuple[PostgresConnection, bool]:
        """The connection that holds the lock now, and whether it was waited for. Raises TimeoutError."""
        pause, waited = _FIRST_WAIT, False
        while True:
            with self._using:
                connection = self._connect()
                if self._ask("SELECT pg_try_advisory_lock(?)", key):
                    return connection, waited
            if time.monotonic() >= until:
                raise TimeoutError
            waited = True
            time.sleep(min(pause, _seconds_left(until)))
            pause = min(2 * pause, _LONGEST_WAIT)

    def _release(self, key: int, connection: PostgresConnection) -> None:
        """A connection that is gone has given its locks already."""
        with self._using, suppress(SymdError):
            if connection is self._connection:
                self._ask("SELECT pg_advisory_unlock(?)", key)

    def check(self, connection: PostgresConnection) -> None:
        """Raises ``StoreUnavailable`` where a connection that held locks was lost: others may hold them."""
        with self._using:
            if connection is not self._connection or not connection.is_silent():
                raise StoreUnavailable(
                    "the catalogue closed the connection that held a turn", where=self._server.where, hint="try again"
                )

    def _connect(self) -> PostgresConnection:
        if self._connection is not None and not self._connection.is_silent():
            self._drop()
        if self._connection is None:
            self._connection = self._server.own_connection()
        return self._connection

    def _ask(self, query: str, key: int) -> bool:
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


class HeldLock:
    """A lock that is held; ``waited``: others had to be waited for."""

    def __init__(self, locks: AdvisoryLocks, connection: PostgresConnection, *, waited: bool) -> None:
        self._locks = locks
        self._connection = connection
        self.waited = waited

    def check(self) -> None:
        """Raises ``StoreUnavailable`` where it was lost meanwhile."""
        self._locks.check(self._connection)


class _LocalLock:
    """A lock of this process, and how many hold it or wait."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0


def _seconds_left(until: float) -> float:
    """The seconds for which a lock can be waited for."""
    return min(max(0.0, until - time.monotonic()), threading.TIMEOUT_MAX)


def _key(kind: int, digest: str) -> int:
    """64 bits with a sign, as the server has them: the digest's first, told apart by kind."""
    key = int(digest[:16], 16) ^ kind
    return key - 2 * _SIGNED if key >= _SIGNED else key
