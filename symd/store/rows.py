"""The catalogue's statements in the SQL that SQLite and PostgreSQL have in common: one row a module, its indexes,
remembered failures and attempts; and the queries of a catalogue.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any, ClassVar, NamedTuple, TypeVar

from symd.model.identities import Digest
from symd.model.summaries import ModuleRecord
from symd.store.connection import (
    DOCUMENT,
    FILE_SIZE,
    LARGEST_FILE,
    LAST_SECOND,
    MOMENT,
    NUMBER,
    TEXT,
    Connection,
    WrongValue,
    digest_of_row,
    of_module,
    readable,
    typed,
)

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


_MENDED = ", ".join(
    [f"{column} = coalesce(modules.{column}, excluded.{column})" for column in ("format", "label")]
    + [
        f"{column} = CASE WHEN modules.{column} BETWEEN 0 AND {LAST_SECOND} THEN modules.{column} ELSE excluded.{column} END"
        for column in ("added", "used")
    ]
)
_INSERT = f"""
    INSERT INTO modules (sha256, size, format, label, added, used) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (sha256) DO UPDATE SET size = excluded.size, {_MENDED}
"""  # noqa: S608 - constants


class Eviction(NamedTuple):
    """A module that was removed to make room: the bytes of its file and its indexes, when it was used last and when it
    went, in seconds since the epoch."""

    digest: Digest
    size: int
    used: float
    time: float


def insert(connection: Connection, record: ModuleRecord) -> None:
    """Add a module's row; one that is there already stays as it is, but for values that symd did not write."""
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
    """Bytes of an index file, 0 where there is none, or its row says what no file has: it is made again, with its
    row."""
    query = "SELECT size FROM indexes WHERE sha256 = ? AND version = ?"
    row = connection.execute(query, (digest, version)).fetchone()
    return int(row[0]) if row and FILE_SIZE.takes(row[0]) else 0


def note_eviction(connection: Connection, eviction: Eviction) -> None:
    """Keep what was evicted, the youngest ``MAX_EVICTIONS``, until it is added again."""
    connection.execute("DELETE FROM evictions WHERE sha256 = ?", (eviction.digest,))
    query = "INSERT INTO evictions (sha256, size, used, evicted) VALUES (?, ?, ?, ?) RETURNING sequence"
    values = (eviction.digest, eviction.size, eviction.used, eviction.time)
    (newest,) = typed(connection.execute(query, values).fetchone(), NUMBER)
    connection.execute("DELETE FROM evictions WHERE sequence <= ?", (newest - MAX_EVICTIONS,))


def eviction(connection: Connection, digest: str) -> Eviction | None:
    """How a module was evicted, where that is remembered."""
    query = "SELECT sha256, size, used, evicted FROM evictions WHERE sha256 = ?"
    row = connection.execute(query, (digest,)).fetchone()
    return Eviction(*of_module(row, NUMBER, MOMENT, MOMENT)) if row else None


def touch(connection: Connection, times: Mapping[str, float]) -> None:
    """Note when modules were used last; times only ever advance."""
    update = "UPDATE modules SET used = :at WHERE sha256 = :sha256 AND used < :at"
    connection.executemany(update, [{"at": at, "sha256": digest} for digest, at in sorted(times.items())])


def remember(connection: Connection, digest: Digest, version: int, reason: str, error: str) -> None:
    """Keep one failure a digest and version; the oldest beyond ``MAX_FAILURES`` go."""
    connection.execute("DELETE FROM failures WHERE sha256 = ? AND version = ?", (digest, version))
    query = "INSERT INTO failures (sha256, version, reason, error) VALUES (?, ?, ?, ?) RETURNING sequence"
    (newest,) = typed(connection.execute(query, (digest, version, reason, error)).fetchone(), NUMBER)
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
    count, ending = typed(connection.execute(query, (digest, version)).fetchone() or (0, ""), NUMBER, TEXT)
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
_ADDED = 4
"""The place of that column in a record."""
_OUTDATED = """
    SELECT sha256 FROM modules AS m
    WHERE EXISTS (SELECT 1 FROM indexes AS i WHERE i.sha256 = m.sha256 AND i.version < :version)
      AND NOT EXISTS (SELECT 1 FROM indexes AS i WHERE i.sha256 = m.sha256 AND i.version >= :version)
      AND NOT EXISTS (SELECT 1 FROM failures AS f WHERE f.sha256 = m.sha256 AND f.version = :version)
    ORDER BY used
"""
_COUNTED = f"coalesce(sum(CASE WHEN size BETWEEN 0 AND {LARGEST_FILE} THEN size END), 0)"
_SUMS = f"SELECT (SELECT count(*) FROM modules), (SELECT {_COUNTED} FROM modules), (SELECT {_COUNTED} FROM indexes)"  # noqa: S608 - constants
MODULES = "SELECT sha256, size, format, label, added, used FROM modules"
"""All rows, as ``size_of_row`` takes them."""
T = TypeVar("T")


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

    def page(
        self,
        read: Callable[[Any, int], Sequence[Sequence[Any]]],
        after: Any,
        place: Callable[[Sequence[Any]], Any],
        value: Callable[[Sequence[Any]], T],
        limit: int,
    ) -> list[T]:
        """Up to ``limit`` values of what ``read`` finds after a place, so many rows at a time; ``place`` says that of a
        row. It is shorter only where there are no more rows."""
        page: list[T] = []
        while wanted := limit - len(page):
            found = read(after, wanted)
            page += readable(found, value)
            if len(found) < wanted:
                break
            after = place(found[-1])
        return page

    @abstractmethod
    def expect_lookups(self, connection: Connection) -> None:
        """Have rows found one by one, by an index, for the rest of the transaction."""

    def section(self, named: str | int | None) -> str | int | None:
        """A section's name or number as it is written into a column that takes either."""
        return named

    @abstractmethod
    def sizes(self, digests: Sequence[Digest]) -> dict[Digest, int]:
        """Catalogued size of each of ``digests`` that has a row which is right."""

    def all_sizes(self) -> dict[Digest, int]:
        """Catalogued size of every module whose row is right."""
        with self.reading() as connection:
            return dict(readable(connection.execute(MODULES), size_of_row))

    def digests(self) -> set[Digest]:
        with self.reading() as connection:
            found = connection.execute("SELECT sha256 FROM modules")
            return set(readable(found, lambda row: digest_of_row(row[0])))

    def indexes(self) -> set[tuple[Digest, int]]:
        """Digest and format version of every index."""
        with self.reading() as connection:
            return self.indexes_within(connection)

    def indexes_within(self, connection: Connection) -> set[tuple[Digest, int]]:
        """Digest and format version of every index, read within a transaction that has begun."""
        found = connection.execute("SELECT sha256, version, size FROM indexes")
        return {index for index, _ in readable(found, _index_size)}

    def index_sizes(self) -> dict[tuple[Digest, int], int]:
        """Bytes of every index, by digest and format version."""
        with self.reading() as connection:
            found = connection.execute("SELECT sha256, version, size FROM indexes")
            return dict(readable(found, _index_size))

    def outdated(self, version: int) -> list[Digest]:
        """Modules that have an index older than ``version`` and neither an index nor a failure of it, by use."""
        with self.reading() as connection:
            found = connection.execute(_OUTDATED, {"version": version})
            return list(readable(found, lambda row: digest_of_row(row[0])))

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
            return self.page(
                lambda after, limit: connection.execute(_PAGE, (*after, limit)).fetchall(),
                after,
                lambda row: (row[_ADDED], row[0]),
                _record,
                limit,
            )

    def eviction(self, digest: str) -> Eviction | None:
        """How the module was evicted, where that is remembered."""
        with self.reading() as connection:
            return eviction(connection, digest)

    def sums(self) -> tuple[int, int, int]:
        """How many modules there are, their bytes, and those of all indexes."""
        with self.reading() as connection:
            modules, module_bytes, index_bytes = typed(connection.execute(_SUMS).fetchone(), NUMBER, NUMBER, NUMBER)
            return modules, module_bytes, index_bytes

    def failure(self, digest: Digest, version: int) -> str | None:
        query = "SELECT error FROM failures WHERE sha256 = ? AND version = ?"
        with self.reading() as connection:
            row = connection.execute(query, (digest, version)).fetchone()
            return str(typed(row, DOCUMENT)[0]) if row else None


def bytes_of_rows(connection: Connection) -> int:
    """Bytes of all modules and indexes, but for those of rows with sizes that no file has."""
    _, *found = typed(connection.execute(_SUMS).fetchone(), NUMBER, NUMBER, NUMBER)
    return int(sum(found))


def size_of_row(row: Sequence[Any]) -> tuple[Digest, int]:
    """Digest and size of a module, of a row of ``MODULES``. Raises ``WrongValue``."""
    digest, size, *_ = of_module(row, FILE_SIZE, TEXT, TEXT, MOMENT, MOMENT)
    return digest, size


def _index_size(row: Sequence[Any]) -> tuple[tuple[Digest, int], int]:
    """Digest and version of an index, and its bytes. Raises ``WrongValue``."""
    digest, version, size = of_module(row, NUMBER, FILE_SIZE)
    return (digest, version), size


def _record(row: Sequence[Any]) -> ModuleRecord:
    return ModuleRecord(*of_module(row, FILE_SIZE, TEXT, TEXT, MOMENT, TEXT))


def wrong_rows(connection: Connection) -> list[WrongValue]:
    """What is wrong with the rows of modules and indexes that others leave out."""
    wrong: list[WrongValue] = []
    for query, value in ((MODULES, size_of_row), ("SELECT sha256, version, size FROM indexes", _index_size)):
        for _ in readable(connection.execute(query), value, wrong.append):
            pass
    return wrong
