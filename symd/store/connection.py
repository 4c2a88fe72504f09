"""A connection to a catalogue, SQLite's or PostgreSQL's, and the values that come from it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from symd.model.identities import Digest, is_digest


class StatementResult(Protocol):
    """What a statement found, read once."""

    @property
    def rowcount(self) -> int:
        """Rows that were changed."""

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection to a catalogue. Parameters stand in a query as ``?`` or as ``:name``."""

    def execute(self, query: str, parameters: Sequence[Any] | Mapping[str, Any] = (), /) -> StatementResult: ...

    def executemany(self, query: str, parameters: Iterable[Any], /) -> StatementResult: ...


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
