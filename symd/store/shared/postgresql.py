"""Connections to PostgreSQL by psycopg: a bounded pool of them, one that listens, and what the server refuses in symd's
words; and locks for modules against every other daemon: advisory locks, which end with the connection of whoever holds
them.

All locks of a daemon are held by one connection, so that a build of minutes keeps none from the pool. To the server
they are all one holder's, so that threads of the daemon first exclude one another."""

from __future__ import annotations

import math
import re
import select
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

import psycopg
from psycopg import pq
from psycopg.abc import PQGen
from psycopg.adapt import Loader
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from symd.config import Limits
from symd.errors import BadQuery, DataLoss, InvalidInput, StoreUnavailable, SymdError
from symd.store.rows import DamagedRow

T = TypeVar("T")
_MILLISECONDS: Final = 1000
_GRACE_SECONDS: Final = 2.0
"""A server that can says itself that it took too long, and so long is waited for its word."""
_LOOK_SECONDS: Final = 0.1
_IDLE_TRANSACTION_SECONDS: Final = 60
"""A daemon that stops within a transaction holds up all others; after so long the server ends it."""
_KEEPALIVES: Final = "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3"
"""Settings by which the server forgets after 25 seconds a daemon whose machine is gone, and with it the daemon's
locks."""
_PARAMETER: Final = re.compile(r"\?|(?<!:):([a-z_0-9]+)")
_DAMAGE: Final = ("0A000", "22", "23", "42", "P0", "XX00")
"""How codes begin that say that the tables are not those that symd made, or their pages are damaged
(postgresql.org/docs/current/errcodes-appendix.html). 0A000 is said of a NaN where a whole number belongs, and of a
column whose type has changed since a statement was planned."""
_OF_VALUES: Final = (psycopg.DataError, psycopg.ProgrammingError)
"""What psycopg raises by itself for values that are no column's of symd's."""
_NO_DAMAGE: Final = ("42501", "42P05")
"""Who asks may not; a pooler between the two mixed up statements."""
_TOO_LONG: Final = "54000"
"""SQLSTATE of a text that is too long for an entry of an index."""
_HINTS: Final[tuple[tuple[str, str], ...]] = (
    ("28", "look at the user and the password: those of the URL, $PGUSER and $PGPASSWORD, or ~/.pgpass"),
    ("3D000", "make the database first (createdb), or name another"),
    ("42501", "let this user make and write tables in the database's schema"),
    ("53300", "raise the server's max_connections, or lower the limit catalogue_connections of each daemon"),
    ("53100", "the server's disk is full: free some space there"),
    ("53", "the server has too little of something: look into its log"),
    ("25006", "this server only reads: name the primary, or several hosts with target_session_attrs=read-write"),
    ("55P03", "another daemon has written for too long: try again"),
    ("57014", "the server took too long: try again"),
    ("57P", "the server stops or starts: try again"),
    ("40", "try again"),
)
_CODES_OF_WORDS: Final[tuple[tuple[str, str], ...]] = (
    ("password authentication failed", "28"),
    ("no pg_hba.conf entry", "28"),
    ("no password supplied", "28"),
    ('FATAL: role "', "28"),
    ('FATAL: database "', "3D000"),
    ("too many clients", "53300"),
    ("connection slots", "53300"),
    ("is starting up", "57P03"),
    ("is shutting down", "57P01"),
)
"""SQLSTATE by words: of an error before there is a connection libpq gives the words alone, in English where the server
speaks it."""
_UNREACHABLE: Final = "look whether the server runs and can be reached; symd goes on by itself when it can"


class _Integer(Loader):
    """Sums of BIGINT are NUMERIC to the server."""

    def load(self, data: Any) -> int:
        return int(bytes(data))


class _Bounded(psycopg.Connection[Any]):
    """A connection to a server that may stand still: statement_timeout is kept by the server alone."""

    seconds = 0.0

    def wait(self, gen: PQGen[T], interval: float = _LOOK_SECONDS, timeout: float | None = None) -> T:
        try:
            return super().wait(gen, interval, self.seconds if timeout is None else timeout)
        except psycopg.errors._WaitTimeout:  # noqa: SLF001 - it has no public name
            if timeout is not None:
                raise  # its caller knows
            raise psycopg.OperationalError(f"no answer within {self.seconds:g} s") from None


class PostgresResult:
    """What a statement found."""

    def __init__(self, cursor: psycopg.Cursor[Any]) -> None:
        self._cursor = cursor

    @property
    def rowcount(self) -> int:
        return self._cursor.rowcount

    def fetchone(self) -> Any:
        return self._cursor.fetchone()

    def fetchall(self) -> list[Any]:
        """Empty, as SQLite's is, where the statement finds nothing by its nature."""
        return self._cursor.fetchall() if self._cursor.description else []

    def __iter__(self) -> Iterator[Any]:
        return iter(self._cursor)


class PostgresConnection:
    """One connection, for one thread at a time. Each statement is a transaction of its own until BEGIN."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        connection.adapters.register_loader("numeric", _Integer)

    def execute(self, query: str, parameters: Sequence[Any] | Mapping[str, Any] = (), /) -> PostgresResult:
        if not parameters:
            return PostgresResult(self._connection.execute(query))  # several statements may travel as one
        return PostgresResult(self._connection.execute(_translated(query), parameters))

    def executemany(self, query: str, parameters: Iterable[Any], /) -> PostgresResult:
        cursor = self._connection.cursor()
        cursor.executemany(_translated(query), list(parameters))
        return PostgresResult(cursor)

    def is_idle(self) -> bool:
        """Whether the connection can be used for something else: it is open, and in no transaction."""
        return self._connection.info.transaction_status is pq.TransactionStatus.IDLE

    def is_silent(self) -> bool:
        """Whether the server has said nothing since the last statement: where it has, it has gone."""
        waiting = select.poll()
        try:
            waiting.register(self._connection.fileno(), select.POLLIN)
        except psycopg.Error:  # it is closed
            return False
        return not waiting.poll(0)

    def notified(self, seconds: float) -> bool:
        """Wait for a notification, but no longer; whether there was one."""
        return any(True for _ in self._connection.notifies(timeout=seconds, stop_after=1))

    def close(self) -> None:
        with suppress(psycopg.Error):
            self._connection.close()


CATALOGUE_SECONDS = 20.0
"""The longest that a catalogue in PostgreSQL may take to connect, to answer one statement, and to let a transaction
begin."""


class PostgresDatabase:
    """The database at a URL, as libpq takes it: ``postgresql://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE``. At most
    ``Limits.catalogue_connections`` connections are lent at a time, and everything ends within about
    ``CATALOGUE_SECONDS``, or raises ``StoreUnavailable``. Safe to use from several threads."""

    def __init__(self, url: str, limits: Limits) -> None:
        """Raises ``InvalidInput`` for a URL that is none. Nothing is connected yet."""
        self._seconds = CATALOGUE_SECONDS
        self._most = limits.catalogue_connections
        self._free = threading.BoundedSemaphore(self._most)
        self._idle: list[PostgresConnection] = []
        self._lock = threading.Lock()
        self._closed = False
        self._conninfo, self.where = _conninfo(url, self._seconds)

    def close(self) -> None:
        """Close the connections that wait. Each that is lent is closed when it is given back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for each in idle:
            each.close()

    def bounded(self, seconds: float | None) -> float:
        """``CATALOGUE_SECONDS``, or fewer where that is said."""
        return self._seconds if seconds is None else min(seconds, self._seconds)

    @contextmanager
    def connection(self, seconds: float | None = None) -> Iterator[PostgresConnection]:
        """A connection from the pool, for which ``bounded`` seconds are waited; after an error of its own it is closed
        instead of reused."""
        wait = self.bounded(seconds)
        if not self._free.acquire(timeout=wait):
            raise self._unavailable(
                f"all {self._most} connections have been busy for {wait:g} s",
                "raise the limit catalogue_connections",
                {"limit": "catalogue_connections", "value": str(self._most)},
            )
        try:
            connection = self._borrowed()
            try:
                with self.translated():
                    yield connection
            finally:
                self._give_back(connection)
        finally:
            self._free.release()

    def own_connection(self) -> PostgresConnection:
        """A connection outside of the pool, to be closed by the caller; what goes wrong with it is ``translated``."""
        with self.translated():
            connection = _Bounded.connect(self._conninfo, autocommit=True)
            connection.seconds = self._seconds + _GRACE_SECONDS
            return PostgresConnection(connection)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """What the server refuses inside becomes an error of symd's."""
        try:
            yield
        except psycopg.Error as error:
            raise self._refusal(error) from error
        except DamagedRow as error:
            raise self._damage(str(error), "") from error

    def _borrowed(self) -> PostgresConnection:
        while self._idle:
            with suppress(IndexError):
                connection = self._idle.pop()
                if connection.is_silent():
                    return connection
                connection.close()
        return self.own_connection()

    def _give_back(self, connection: PostgresConnection) -> None:
        is_idle = connection.is_idle()
        with self._lock:
            kept = is_idle and not self._closed
            if kept:
                self._idle.append(connection)
        if not kept:
            connection.close()

    def _refusal(self, error: psycopg.Error) -> SymdError:
        code = error.sqlstate or ""
        words = " ".join((error.diag.message_primary or str(error)).split())
        code = code or next((code for part, code in _CODES_OF_WORDS if part in words), "")
        if "NUL (0x00)" in words:
            return BadQuery("a text has the character NUL, which PostgreSQL keeps in none", hint="leave it out")
        if code == _TOO_LONG:
            return BadQuery("a name is longer than the 2,700 bytes that PostgreSQL finds again", hint="shorten it")
        if (code.startswith(_DAMAGE) and code not in _NO_DAMAGE) or (not code and isinstance(error, _OF_VALUES)):
            return self._damage(words, code)
        hint = next((hint for prefix, hint in _HINTS if code.startswith(prefix)), _UNREACHABLE)
        return self._unavailable(f"the catalogue refused: {words}", hint, {"sqlstate": code} if code else {})

    def _unavailable(self, what: str, hint: str, metadata: Mapping[str, str]) -> StoreUnavailable:
        return StoreUnavailable(what, where=self.where, hint=hint, metadata=dict(metadata))

    def _damage(self, fault: str, code: str) -> DataLoss:
        return DataLoss(
            f"the catalogue is damaged: {fault}",
            where=self.where,
            hint="add the module again where a row of it is named; else its tables are not as symd made them: have them from a backup, or name the"
            " database that has symd's",
            metadata={"sqlstate": code, "fault": fault},
        )


@lru_cache(maxsize=256)
def _translated(query: str) -> str:
    """A query with parameters as psycopg has them."""
    return _PARAMETER.sub(lambda match: f"%({match[1]})s" if match[1] else "%s", query)


def _conninfo(url: str, seconds: float) -> tuple[str, str]:
    """What libpq is told, and what people are told of it: no password."""
    try:
        known = conninfo_to_dict(url)
    except psycopg.Error:  # its words may have a password in them
        raise InvalidInput(
            "it is not the URL of a catalogue", hint="write postgresql://USER@HOST:PORT/DATABASE"
        ) from None
    whole = max(1, round(seconds))
    options = (
        f"-c statement_timeout={round(seconds * _MILLISECONDS)} -c lock_timeout={round(seconds * _MILLISECONDS)}"
        f" -c idle_in_transaction_session_timeout={_IDLE_TRANSACTION_SECONDS * _MILLISECONDS} {_KEEPALIVES}"
    )
    told: dict[str, Any] = {
        "application_name": "symd",
        "client_encoding": "utf8",
        "connect_timeout": max(2, whole),
        "keepalives_idle": whole,
        "keepalives_interval": max(1, whole // 3),
        "keepalives_count": 3,
        "tcp_user_timeout": round(seconds * _MILLISECONDS),
        **known,
        "options": f"{options} {known.get('options', '')}".strip(),
    }
    place = f"{known.get('host', '')}{':' if known.get('port') else ''}{known.get('port', '')}"
    return make_conninfo(**told), f"postgresql://{place}/{known.get('dbname', '')}"


BUILDING: Final = 0x6275696C_64000000
"""The kind of lock that is held by who makes an index of a module: a number that is combined with the digest's first 64
bits."""
STORING: Final = 0x73746F72_65000000
"""The kind of lock that is held by who writes or removes objects of a module: a number that is combined with the
digest's first 64 bits."""
_FIRST_WAIT: Final = 0.005
_MAX_WAIT: Final = 0.1
"""Seconds between two looks whether a lock is free."""
_SIGNED: Final = 1 << 63


class AdvisoryLocks:
    """Locks for modules against every other daemon, held by one connection to PostgreSQL. Safe to use from several
    threads. Raises ``StoreUnavailable``."""

    def __init__(self, server: PostgresDatabase) -> None:
        self._server = server
        self._using = threading.Lock()
        self._connection: PostgresConnection | None = None
        self._local: WeakValueDictionary[int, threading.Lock] = WeakValueDictionary()
        """A lock of this process for each key that somebody holds or waits for."""

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
            lock = self._local.setdefault(key, threading.Lock())
        waited = not lock.acquire(blocking=False)
        if waited and not lock.acquire(timeout=_seconds_left(until)):
            raise TimeoutError
        try:
            yield waited
        finally:
            lock.release()

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
            pause = min(2 * pause, _MAX_WAIT)

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


def _seconds_left(until: float) -> float:
    """The seconds for which a lock can be waited for."""
    return min(max(0.0, until - time.monotonic()), threading.TIMEOUT_MAX)


def _key(kind: int, digest: str) -> int:
    """64 bits with a sign, as the server has them: the digest's first, told apart by kind."""
    key = int(digest[:16], 16) ^ kind
    return key - 2 * _SIGNED if key >= _SIGNED else key
