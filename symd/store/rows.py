"""The catalogue's statements in the SQL that SQLite and PostgreSQL have in common: one row a module, its indexes,
remembered failures and attempts; the queries of a catalogue, and its connections; and how long a thread waits for the
lock of writers: no longer than its caller waits.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from typing import Any, ClassVar, NamedTuple, Protocol

from symd.model.identities import Digest
from symd.model.summaries import ModuleRecord

_thread = threading.local()


@contextmanager
def catalogue_lock_timeout(seconds: float | None) -> Iterator[None]:
    """Inside, in this thread, changes wait for the catalogue's lock for so many seconds from now at most; None: as long
    as any change may."""
    _thread.until = None if seconds is None else time.monotonic() + seconds
    try:
        yield
    finally:
        _thread.until = None


def lock_timeout_left() -> float | None:
    """The seconds of ``catalogue_lock_timeout`` that are left; None outside of it. Only changes that are made for one
    caller ask: an index is made for all who want it, and its rows wait as long as any change may."""
    until: float | None = getattr(_thread, "until", None)
    return None if until is None else max(until - time.monotonic(), 0.0)


class DamagedRow(Exception):
    """A row has what symd never wrote, or there is none where there is always one: ``DataLoss`` outside of the
    catalogue (``translated``)."""


class StatementResult(Protocol):
    """What a statement found, read once."""

    @property
    def rowcount(self) -> int:
        """Rows that were changed."""

    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection to a catalogue. Parameters are in a query as ``?`` or as ``:name``."""

    def execute(self, query: str, parameters: Sequence[Any] | Mapping[str, Any] = (), /) -> StatementResult: ...
    def executemany(self, query: str, parameters: Iterable[Any], /) -> StatementResult: ...


MAX_FAILURES = 100_000
"""The most failures that are remembered, the youngest: whoever sends malformed modules forever cannot fill the
disk."""
MAX_EVICTIONS = 10_000
"""The most evictions that are remembered, the youngest."""
_DELETED_AT_ONCE = 500
"""Modules of one statement."""
_OF_A_MODULE = ("indexes", "aliases", "modules", "failures")
"""Tables, in this order: rows that are there still when their module goes are looked for module by module."""
_OLDER = """
    SELECT sha256, version FROM indexes WHERE sha256 = :sha256 AND version < :version
    AND EXISTS (SELECT 1 FROM indexes WHERE sha256 = :sha256 AND version = :version)
"""


_INSERT = """
    INSERT INTO modules (sha256, size, format, label, added, used) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (sha256) DO UPDATE SET size = excluded.size
"""


class Eviction(NamedTuple):
    """A module that was removed to make room: the bytes of its file and its indexes, when it was used last and when it
    went, in seconds since the epoch."""

    digest: Digest
    size: int
    used: float
    time: float


def insert(connection: Connection, record: ModuleRecord) -> None:
    """Add a module's row; one that is there already stays as it is, but for its size."""
    connection.execute(
        _INSERT,
        (record.sha256, record.size, record.format, record.label, record.create_time, record.create_time),
    )


def delete(connection: Connection, digests: Iterable[Digest]) -> None:
    """Drop modules with their failures, aliases and the rows of their indexes; other processes are told
    (``changes``)."""
    left = iter(digests)
    while some := list(islice(left, _DELETED_AT_ONCE)):
        among = f"IN ({', '.join('?' * len(some))})"
        for table in _OF_A_MODULE:
            connection.execute(f"DELETE FROM {table} WHERE sha256 {among}", some)  # noqa: S608 - constants


def exists(connection: Connection, digest: str) -> bool:
    return connection.execute("SELECT 1 FROM modules WHERE sha256 = ?", (digest,)).fetchone() is not None


def is_admitted(connection: Connection, digest: str) -> bool:
    """Whether a module is there and could be opened, so that its row names its format."""
    query = "SELECT 1 FROM modules WHERE sha256 = ? AND format <> ''"
    return connection.execute(query, (digest,)).fetchone() is not None


def keep_index(connection: Connection, digest: Digest, version: int, size: int) -> None:
    """Note an index file of ``size`` bytes; failures and attempts remembered up to ``version`` are forgotten."""
    connection.execute(
        "INSERT INTO indexes (sha256, version, size) VALUES (?, ?, ?)"
        " ON CONFLICT (sha256, version) DO UPDATE SET size = excluded.size",
        (digest, version, size),
    )
    connection.execute("DELETE FROM failures WHERE sha256 = ? AND version <= ?", (digest, version))
    forget_attempts(connection, digest, version)


def forget_indexes(connection: Connection, which: Iterable[tuple[Digest, int]]) -> None:
    """Drop the rows of index files that are gone."""
    connection.executemany("DELETE FROM indexes WHERE sha256 = ? AND version = ?", which)


def older_indexes(connection: Connection, digest: Digest, version: int) -> list[tuple[Digest, int]]:
    """A module's indexes older than ``version``; none where it has no index of that version."""
    return connection.execute(_OLDER, {"sha256": digest, "version": version}).fetchall()


def index_size(connection: Connection, digest: Digest, version: int) -> int:
    """Bytes of an index file, 0 where there is none."""
    query = "SELECT size FROM indexes WHERE sha256 = ? AND version = ?"
    row = connection.execute(query, (digest, version)).fetchone()
    return int(row[0]) if row else 0


def note_eviction(connection: Connection, eviction: Eviction) -> None:
    """Keep what was evicted, the youngest ``MAX_EVICTIONS``, until it is added again."""
    connection.execute("DELETE FROM evictions WHERE sha256 = ?", (eviction.digest,))
    query = "INSERT INTO evictions (sha256, size, used, evicted) VALUES (?, ?, ?, ?) RETURNING sequence"
    values = (eviction.digest, eviction.size, eviction.used, eviction.time)
    (newest,) = connection.execute(query, values).fetchone()
    connection.execute("DELETE FROM evictions WHERE sequence <= ?", (newest - MAX_EVICTIONS,))


def eviction(connection: Connection, digest: str) -> Eviction | None:
    """How a module was evicted, where that is remembered."""
    query = "SELECT sha256, size, used, evicted FROM evictions WHERE sha256 = ?"
    row = connection.execute(query, (digest,)).fetchone()
    return Eviction(*row) if row else None


def touch(connection: Connection, times: Mapping[str, float]) -> None:
    """Note when modules were used last; times only ever advance."""
    update = "UPDATE modules SET used = :at WHERE sha256 = :sha256 AND used < :at"
    connection.executemany(update, [{"at": at, "sha256": digest} for digest, at in sorted(times.items())])


def remember(connection: Connection, digest: Digest, version: int, reason: str, error: str) -> None:
    """Keep one failure a digest and version; the oldest beyond ``MAX_FAILURES`` go."""
    connection.execute("DELETE FROM failures WHERE sha256 = ? AND version = ?", (digest, version))
    query = "INSERT INTO failures (sha256, version, reason, error) VALUES (?, ?, ?, ?) RETURNING sequence"
    (newest,) = connection.execute(query, (digest, version, reason, error)).fetchone()
    connection.execute("DELETE FROM failures WHERE sequence <= ?", (newest - MAX_FAILURES,))


def count_attempt(connection: Connection, digest: Digest, version: int) -> tuple[int, str]:
    """Count one more attempt at a digest and version, where the module is there; how many there were before, and how
    the last one ended."""
    before = attempts(connection, digest, version)
    connection.execute(
        "INSERT INTO attempts (sha256, version, count, ending)"
        " SELECT sha256, ?, 1, '' FROM modules WHERE sha256 = ?"
        " ON CONFLICT (sha256, version) DO UPDATE SET count = attempts.count + 1, ending = ''",
        (version, digest),
    )
    newest = "(SELECT max(sequence) FROM attempts)"
    connection.execute(f"DELETE FROM attempts WHERE sequence <= {newest} - ?", (MAX_FAILURES,))  # noqa: S608 - a constant
    return before


def attempts(connection: Connection, digest: Digest, version: int) -> tuple[int, str]:
    """How many attempts at a digest and version there were, and how the last one ended."""
    query = "SELECT count, ending FROM attempts WHERE sha256 = ? AND version = ?"
    count, ending = connection.execute(query, (digest, version)).fetchone() or (0, "")
    return count, ending


def forget_attempts_of_nothing(connection: Connection) -> None:
    """The counts of modules that were taken out because whoever read them died (``Store.refuse``) outlive no start."""
    connection.execute("DELETE FROM attempts WHERE sha256 NOT IN (SELECT sha256 FROM modules)")


def forget_attempts(connection: Connection, digest: Digest, version: int) -> None:
    """Forget the attempts up to a version: the last one has ended with an answer, an error, or for a reason that is not
    the module's."""
    connection.execute("DELETE FROM attempts WHERE sha256 = ? AND version <= ?", (digest, version))


def forget_outcomes(connection: Connection, digest: Digest) -> bool:
    """Forget failures and attempts of every version; whether there were any."""
    failed = connection.execute("DELETE FROM failures WHERE sha256 = ?", (digest,)).rowcount
    attempted = connection.execute("DELETE FROM attempts WHERE sha256 = ?", (digest,)).rowcount
    return failed + attempted > 0


_RECORD = """
    SELECT sha256, size, format, label, added,
           coalesce((SELECT reason FROM failures WHERE failures.sha256 = modules.sha256
                     ORDER BY version DESC LIMIT 1), '')
    FROM modules
"""
_ONE = _RECORD + "WHERE sha256 = ?"
_PAGE = _RECORD + "WHERE (added, sha256) > (?, ?) ORDER BY added, sha256 LIMIT ?"
_OUTDATED = """
    SELECT sha256 FROM modules AS m
    WHERE EXISTS (SELECT 1 FROM indexes AS i WHERE i.sha256 = m.sha256 AND i.version < :version)
      AND NOT EXISTS (SELECT 1 FROM indexes AS i WHERE i.sha256 = m.sha256 AND i.version >= :version)
      AND NOT EXISTS (SELECT 1 FROM failures AS f WHERE f.sha256 = m.sha256 AND f.version = :version)
    ORDER BY used
"""
_SUMS = """
    SELECT (SELECT count(*) FROM modules),
           (SELECT coalesce(sum(size), 0) FROM modules), (SELECT coalesce(sum(size), 0) FROM indexes)
"""
SIZES = "SELECT sha256, size FROM modules"
"""The size of every module."""


class CatalogueQueries(ABC):
    """Questions to a catalogue, whatever keeps it."""

    LAST_ENTRY: ClassVar[str]
    """The query for the number of the last entry that the log of modules was given, forgotten or not; 0 before the
    first."""

    FOR_EACH: ClassVar[str]
    """What is behind FROM to join each row of ``given`` (``execute_given``) with the rows of ``{table}`` that fit
    ``{condition}``, so that these are found by an index."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Connection]:
        """A connection for queries."""

    @abstractmethod
    def reading_at_once(self) -> AbstractContextManager[Connection]:
        """One state of the catalogue for several queries."""

    @abstractmethod
    def writing(
        self, *, survives_power_cut: bool = True, seconds: float | None = None
    ) -> AbstractContextManager[Connection]:
        """A transaction that no other writer, in this process or another, runs beside; rolled back on an error. One
        that need not survive a power cut, only the end of this process, does not wait for the disk. ``seconds`` bound
        the wait for the lock that all writers share."""

    @abstractmethod
    def given(self, columns: Mapping[str, str], found: Iterable[Sequence[Any]]) -> Iterator[tuple[str, Sequence[Any]]]:
        """Rows as queries that have some of them each, in their order, with the query's parameters. ``columns`` are
        PostgreSQL's types, by name."""

    def execute_given(
        self,
        connection: Connection,
        columns: Mapping[str, str],
        found: Iterable[Sequence[Any]],
        statement: str,
        parameters: Sequence[Any] = (),
    ) -> list[Any]:
        """What a statement returns, for rows that it has as the table ``given``, many at a time."""
        returned: list[Any] = []
        for query, values in self.given(columns, found):
            with_rows = f"WITH given ({', '.join(columns)}) AS ({query}) {statement}"
            returned += connection.execute(with_rows, [*values, *parameters]).fetchall()
        return returned

    @abstractmethod
    def expect_lookups(self, connection: Connection) -> None:
        """Have rows found one by one, by an index, for the rest of the transaction."""

    def section(self, named: str | int | None) -> str | int | None:
        """A section's name or number as it is written into a column that takes either."""
        return named

    @abstractmethod
    def sizes(self, digests: Sequence[Digest]) -> dict[Digest, int]:
        """Catalogued size of each of ``digests`` that has a row."""

    def all_sizes(self) -> dict[Digest, int]:
        """Catalogued size of every module."""
        with self.reading() as connection:
            return dict(connection.execute(SIZES))

    def digests(self) -> set[Digest]:
        with self.reading() as connection:
            return {digest for (digest,) in connection.execute("SELECT sha256 FROM modules")}

    def indexes_within(self, connection: Connection) -> set[tuple[Digest, int]]:
        """Digest and format version of every index, read within a transaction that has begun."""
        return set(connection.execute("SELECT sha256, version FROM indexes"))

    def index_sizes(self) -> dict[tuple[Digest, int], int]:
        """Bytes of every index, by digest and format version."""
        with self.reading() as connection:
            found = connection.execute("SELECT sha256, version, size FROM indexes")
            return {(digest, version): size for digest, version, size in found}

    def outdated(self, version: int) -> list[Digest]:
        """Modules that have an index older than ``version`` and neither an index nor a failure of it, by use."""
        with self.reading() as connection:
            return [digest for (digest,) in connection.execute(_OUTDATED, {"version": version})]

    def has(self, digest: Digest) -> bool:
        with self.reading() as connection:
            return exists(connection, digest)

    def record(self, digest: Digest) -> ModuleRecord | None:
        with self.reading() as connection:
            row = connection.execute(_ONE, (digest,)).fetchone()
            return ModuleRecord(*row) if row else None

    def records(self, after: tuple[float, str], limit: int) -> list[ModuleRecord]:
        """Up to ``limit`` records whose (added, sha256) comes after ``after``, in that order."""
        with self.reading() as connection:
            return [ModuleRecord(*row) for row in connection.execute(_PAGE, (*after, limit))]

    def eviction(self, digest: str) -> Eviction | None:
        """How the module was evicted, where that is remembered."""
        with self.reading() as connection:
            return eviction(connection, digest)

    def sums(self) -> tuple[int, int, int]:
        """How many modules there are, their bytes, and those of all indexes."""
        with self.reading() as connection:
            modules, module_bytes, index_bytes = map(int, connection.execute(_SUMS).fetchone())
            return modules, module_bytes, index_bytes

    def failure(self, digest: Digest, version: int) -> str | None:
        query = "SELECT error FROM failures WHERE sha256 = ? AND version = ?"
        with self.reading() as connection:
            row = connection.execute(query, (digest, version)).fetchone()
            return str(row[0]) if row else None
