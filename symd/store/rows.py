"""The catalogue's questions and statements in the SQL that SQLite and PostgreSQL have in common: one row a module, its indexes, remembered
failures and attempts, and the log of modules."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, NamedTuple, Protocol

from symd.model.identities import Digest, is_digest
from symd.model.summaries import ModuleRecord

MAX_FAILURES = 100_000
"""So many of the youngest failures are remembered: whoever sends malformed modules for ever cannot fill the disk."""
MAX_EVICTIONS = 10_000
"""So many of the youngest evictions are remembered."""
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
_OLDER = """
    SELECT sha256, version FROM indexes WHERE sha256 = :sha256 AND version < :version
    AND EXISTS (SELECT 1 FROM indexes WHERE sha256 = :sha256 AND version = :version)
"""

_SUMS = (
    "SELECT (SELECT count(*) FROM modules), (SELECT coalesce(sum(size), 0) FROM modules),"
    " (SELECT coalesce(sum(size), 0) FROM indexes)"
)


class Rows(Protocol):
    """What a statement found, read once."""

    @property
    def rowcount(self) -> int:
        """Rows that were changed."""

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection to a catalogue. Parameters stand in a query as ``?`` or as ``:name``."""

    def execute(self, query: str, parameters: Sequence[Any] | Mapping[str, Any] = (), /) -> Rows: ...

    def executemany(self, query: str, parameters: Iterable[Any], /) -> Rows: ...


class Eviction(NamedTuple):
    """A module that was removed to make room: the bytes of its file and its indexes, when it was used last and when it went, in
    seconds since the epoch."""

    digest: Digest
    size: int
    used: float
    time: float


class CatalogueQueries(ABC):
    """Questions to a catalogue, whatever keeps it."""

    LAST_ENTRY: ClassVar[str]
    """The query for the number of the last entry that the log of modules was given, forgotten or not; 0 before the first."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Connection]:
        """A connection for queries."""

    @abstractmethod
    def reading_at_once(self) -> AbstractContextManager[Connection]:
        """One state of the catalogue for several queries."""

    @abstractmethod
    def writing(self, *, survives_power_cut: bool = True) -> AbstractContextManager[Connection]:
        """A transaction that no other writer, in this process or another, runs beside; rolled back on an error. One that
        need not survive a power cut, only the end of this process, does not wait for the disk."""

    def section(self, named: str | int | None) -> str | int | None:
        """A section's name or number as it is written into a column that takes either."""
        return named

    @abstractmethod
    def sizes(self, digests: Sequence[Digest]) -> dict[str, int]:
        """Catalogued size of each of ``digests`` that has a row."""

    def all_sizes(self) -> dict[Digest, int]:
        """Catalogued size of every module."""
        with self.reading() as connection:
            return {
                digest_of_row(value): size for value, size in connection.execute("SELECT sha256, size FROM modules")
            }

    def digests(self) -> set[Digest]:
        with self.reading() as connection:
            return {digest_of_row(value) for (value,) in connection.execute("SELECT sha256 FROM modules")}

    def indexes(self) -> set[tuple[Digest, int]]:
        """Digest and format version of every index."""
        with self.reading() as connection:
            found = connection.execute("SELECT sha256, version FROM indexes")
            return {(digest_of_row(value), version) for value, version in found}

    def index_sizes(self) -> dict[tuple[Digest, int], int]:
        """Bytes of every index, by digest and format version."""
        with self.reading() as connection:
            found = connection.execute("SELECT sha256, version, size FROM indexes")
            return {(digest_of_row(value), version): size for value, version, size in found}

    def outdated(self, version: int) -> list[Digest]:
        """Modules that have an index older than ``version`` and neither an index nor a failure of it, by use."""
        with self.reading() as connection:
            return [digest_of_row(value) for (value,) in connection.execute(_OUTDATED, {"version": version})]

    def has(self, digest: Digest) -> bool:
        with self.reading() as connection:
            return exists(connection, digest)

    def record(self, digest: Digest) -> ModuleRecord | None:
        with self.reading() as connection:
            row = connection.execute(_ONE, (digest,)).fetchone()
            return _record(row) if row else None

    def records(self, after: tuple[float, str], limit: int) -> list[ModuleRecord]:
        """Up to ``limit`` records whose (added, sha256) comes after ``after``, in that order."""
        with self.reading() as connection:
            return [_record(row) for row in connection.execute(_PAGE, (*after, limit))]

    def eviction(self, digest: str) -> Eviction | None:
        """How the module was evicted, where that is remembered."""
        query = "SELECT sha256, size, used, evicted FROM evictions WHERE sha256 = ?"
        with self.reading() as connection:
            row = connection.execute(query, (digest,)).fetchone()
            return Eviction(*typed(row, str, int, (float, int), (float, int))) if row else None

    def sums(self) -> tuple[int, int, int]:
        """How many modules there are, their bytes, and those of all indexes."""
        with self.reading() as connection:
            modules, module_bytes, index_bytes = typed(connection.execute(_SUMS).fetchone(), int, int, int)
            return modules, module_bytes, index_bytes

    def failure(self, digest: Digest, version: int) -> str | None:
        query = "SELECT error FROM failures WHERE sha256 = ? AND version = ?"
        with self.reading() as connection:
            row = connection.execute(query, (digest, version)).fetchone()
            return str(typed(row, str)[0]) if row else None


def _record(row: Sequence[Any]) -> ModuleRecord:
    return ModuleRecord(digest_of_row(row[0]), *typed(row[1:], int, str, str, (float, int), str))


class WrongValue(sqlite3.DatabaseError):
    """A value that symd did not write."""

    sqlite_errorname = "SQLITE_CORRUPT_VALUE"


def typed(row: Sequence[Any], *types: type | tuple[type, ...]) -> Sequence[Any]:
    """The row, where its values have these types. Raises ``WrongValue``: SQLite keeps any value in any column."""
    for value, allowed in zip(row, types, strict=True):
        if not isinstance(value, allowed):
            raise WrongValue(f"a value {ascii(value)[:40]} is where another belongs")
    return row


def digest_of_row(value: object) -> Digest:
    """The digest in a row. Raises ``WrongValue``."""
    if isinstance(value, str) and is_digest(value):
        return value
    raise WrongValue(f"{ascii(value)[:40]} is no module's digest")


def insert(connection: Connection, record: ModuleRecord) -> None:
    """Add a module's row; one that is there already stays as it is, but for a size that was wrong."""
    connection.execute(
        "INSERT INTO modules (sha256, size, format, label, added, used) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (sha256) DO UPDATE SET size = excluded.size",
        (record.sha256, record.size, record.format, record.label, record.create_time, record.create_time),
    )


def delete(connection: Connection, digests: Iterable[Digest]) -> None:
    """Drop modules with their failures, aliases and the rows of their indexes; other processes are told (``changes``)."""
    keys = [(digest,) for digest in digests]
    connection.executemany("DELETE FROM modules WHERE sha256 = ?", keys)
    connection.executemany("DELETE FROM failures WHERE sha256 = ?", keys)


def exists(connection: Connection, digest: str) -> bool:
    return connection.execute("SELECT 1 FROM modules WHERE sha256 = ?", (digest,)).fetchone() is not None


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
    return int(typed(row, int)[0]) if row else 0


def note_eviction(connection: Connection, eviction: Eviction) -> None:
    """Keep what was evicted, the youngest ``MAX_EVICTIONS``, until it is added again."""
    connection.execute("DELETE FROM evictions WHERE sha256 = ?", (eviction.digest,))
    query = "INSERT INTO evictions (sha256, size, used, evicted) VALUES (?, ?, ?, ?) RETURNING sequence"
    values = (eviction.digest, eviction.size, eviction.used, eviction.time)
    (newest,) = typed(connection.execute(query, values).fetchone(), int)
    connection.execute("DELETE FROM evictions WHERE sequence <= ?", (newest - MAX_EVICTIONS,))


def touch(connection: Connection, times: Mapping[str, float]) -> None:
    """Note when modules were used last; times only ever advance."""
    update = "UPDATE modules SET used = :at WHERE sha256 = :sha256 AND used < :at"
    connection.executemany(update, [{"at": at, "sha256": digest} for digest, at in sorted(times.items())])


def tell(connection: Connection, entries: Iterable[tuple[str, str, int | None, int | None]]) -> None:
    """Write what happened to modules into their log (``module_log``): kind, digest, load and time of each. A removal is written by the
    row's trigger."""
    connection.executemany("INSERT INTO changes (kind, sha256, writer, load, time) VALUES (?, ?, '', ?, ?)", entries)


def trim_log(connection: Connection, kept: int) -> None:
    """Forget all but the last ``kept`` entries of the log of modules."""
    connection.execute("DELETE FROM changes WHERE sequence <= (SELECT max(sequence) FROM changes) - ?", (kept,))


def remember(connection: Connection, digest: Digest, version: int, reason: str, error: str) -> None:
    """Keep one failure a digest and version; the oldest beyond ``MAX_FAILURES`` go."""
    connection.execute("DELETE FROM failures WHERE sha256 = ? AND version = ?", (digest, version))
    query = "INSERT INTO failures (sha256, version, reason, error) VALUES (?, ?, ?, ?) RETURNING sequence"
    (newest,) = typed(connection.execute(query, (digest, version, reason, error)).fetchone(), int)
    connection.execute("DELETE FROM failures WHERE sequence <= ?", (newest - MAX_FAILURES,))


def count_attempt(connection: Connection, digest: Digest, version: int) -> tuple[int, str]:
    """Count one more attempt at a digest and version, where the module is there; how many there were before, and how the last
    one ended."""
    keys = digest, version
    query = "SELECT count, ending FROM attempts WHERE sha256 = ? AND version = ?"
    before = typed(connection.execute(query, keys).fetchone() or (0, ""), int, str)
    connection.execute(
        "INSERT INTO attempts (sha256, version, count, ending)"
        " SELECT sha256, ?, 1, '' FROM modules WHERE sha256 = ?"
        " ON CONFLICT (sha256, version) DO UPDATE SET count = attempts.count + 1, ending = ''",
        (version, digest),
    )
    newest = "(SELECT max(sequence) FROM attempts)"
    connection.execute(f"DELETE FROM attempts WHERE sequence <= {newest} - ?", (MAX_FAILURES,))  # noqa: S608 - a constant
    return before[0], before[1]


def forget_attempts_of_nothing(connection: Connection) -> None:
    """The counts of modules that were taken out because whoever read them died (``Store.refuse``) outlive no start."""
    connection.execute("DELETE FROM attempts WHERE sha256 NOT IN (SELECT sha256 FROM modules)")


def forget_attempts(connection: Connection, digest: Digest, version: int) -> None:
    """Forget the attempts up to a version: the last one has ended with an answer, an error, or for a reason that is not the module's."""
    connection.execute("DELETE FROM attempts WHERE sha256 = ? AND version <= ?", (digest, version))


def forget_outcomes(connection: Connection, digest: Digest) -> bool:
    """Forget failures and attempts of every version; whether there were any."""
    failed = connection.execute("DELETE FROM failures WHERE sha256 = ?", (digest,)).rowcount
    attempted = connection.execute("DELETE FROM attempts WHERE sha256 = ?", (digest,)).rowcount
    return failed + attempted > 0
