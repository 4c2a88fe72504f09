"""The catalogue's questions, in the SQL that SQLite and PostgreSQL have in common: one row a module, its indexes, remembered failures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from symd.model.identities import Digest
from symd.model.summaries import ModuleRecord
from symd.store import rows
from symd.store.connection import Connection, digest_of_row, typed
from symd.store.rows import Eviction

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
_SUMS = (
    "SELECT (SELECT count(*) FROM modules), (SELECT coalesce(sum(size), 0) FROM modules),"
    " (SELECT coalesce(sum(size), 0) FROM indexes)"
)


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

    @abstractmethod
    def expect_lookups(self, connection: Connection) -> None:
        """For the rest of the transaction rows are found one by one, by an index."""

    def section(self, named: str | int | None) -> str | int | None:
        """A section's name or number as it is written into a column that takes either."""
        return named

    @abstractmethod
    def sizes(self, digests: Sequence[Digest]) -> dict[Digest, int]:
        """Catalogued size of each of ``digests`` that has a row."""

    def all_sizes(self) -> dict[Digest, int]:
        """Catalogued size of every module."""
        with self.reading() as connection:
            return sizes_of_rows(connection.execute("SELECT sha256, size FROM modules"))

    def digests(self) -> set[Digest]:
        with self.reading() as connection:
            return {digest_of_row(value) for (value,) in connection.execute("SELECT sha256 FROM modules")}

    def indexes(self) -> set[tuple[Digest, int]]:
        """Digest and format version of every index."""
        with self.reading() as connection:
            return rows.indexes(connection)

    def index_sizes(self) -> dict[tuple[Digest, int], int]:
        """Bytes of every index, by digest and format version."""
        with self.reading() as connection:
            found = connection.execute("SELECT sha256, version, size FROM indexes")
            return dict(map(_index_size, found))

    def outdated(self, version: int) -> list[Digest]:
        """Modules that have an index older than ``version`` and neither an index nor a failure of it, by use."""
        with self.reading() as connection:
            return [digest_of_row(value) for (value,) in connection.execute(_OUTDATED, {"version": version})]

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
            return [_record(row) for row in connection.execute(_PAGE, (*after, limit))]

    def eviction(self, digest: str) -> Eviction | None:
        """How the module was evicted, where that is remembered."""
        with self.reading() as connection:
            return rows.eviction(connection, digest)

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


def sizes_of_rows(found: Iterable[Sequence[Any]]) -> dict[Digest, int]:
    """Of rows of a digest and a size. Raises ``WrongValue``."""
    return {digest_of_row(value): typed((size,), int)[0] for value, size in found}


def _index_size(row: Sequence[Any]) -> tuple[tuple[Digest, int], int]:
    """Digest and version of an index, and its bytes. Raises ``WrongValue``."""
    version, size = typed(row[1:], int, int)
    return (digest_of_row(row[0]), version), size


def _record(row: Sequence[Any]) -> ModuleRecord:
    return ModuleRecord(digest_of_row(row[0]), *typed(row[1:], int, str, str, (float, int), str))
