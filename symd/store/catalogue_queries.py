"""The catalogue's questions, in the SQL that SQLite and PostgreSQL have in common: one row a module, its indexes, remembered failures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, TypeVar

from symd.model.identities import Digest
from symd.model.summaries import ModuleRecord
from symd.store import rows
from symd.store.connection import (
    DOCUMENT,
    FILE_SIZE,
    LARGEST_FILE,
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
from symd.store.rows import Eviction

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
    """The query for the number of the last entry that the log of modules was given, forgotten or not; 0 before the first."""

    FOR_EACH: ClassVar[str]
    """What stands behind FROM to join each row of ``given`` (``execute_given``) with the rows of ``{table}`` that fit ``{condition}``, so that these
    are found by an index."""

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
        """A transaction that no other writer, in this process or another, runs beside; rolled back on an error. One that
        need not survive a power cut, only the end of this process, does not wait for the disk. ``seconds`` bound the wait for the lock that all
        writers share."""

    @abstractmethod
    def given(self, columns: Mapping[str, str], found: Iterable[Sequence[Any]]) -> Iterator[tuple[str, Sequence[Any]]]:
        """Rows as queries that have some of them each, in their order, with the query's parameters. ``columns`` are PostgreSQL's types, by name."""

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
        """Up to ``limit`` values of what ``read`` finds after a place, so many rows at a time; ``place`` says that of a row. It is shorter only where
        there are no more rows."""
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
            return rows.exists(connection, digest)

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
            return rows.eviction(connection, digest)

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
