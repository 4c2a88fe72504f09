"""Whether a catalogue can be what symd wrote: SQLite vouches for its pages, not for tables that somebody dropped or values of the
wrong type, which would end whoever reads them."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final, NamedTuple

from symd.model.identities import is_digest
from symd.model.plurals import counted
from symd.store import failures
from symd.store.catalogue import MIGRATIONS

START: Final = ("modules", "indexes", "attempts")
"""The tables of which a start believes every value."""
ALL: Final = (
    *START,
    "failures",
    "changes",
    "module_log",
    "evictions",
    "aliases",
    "contexts",
    "loads",
    "segments",
    "unloads",
)
_TYPES: Mapping[str, tuple[type, ...]] = {"INTEGER": (int,), "REAL": (float, int), "TEXT": (str,), "BLOB": (bytes,)}
_LARGEST: Final = 1 << 61
"""No count, size or number of symd's own comes near: one that does would overflow where it is added to."""
_LAST: Final = 1 << 62
"""The same for the last number that was given: a fresh catalogue goes on from there (``salvage``)."""
_ANY_NUMBER: Final = frozenset({"address", "offset", "loaded", "unloaded", "time"})
"""Columns of 64 bits that clients give."""
LAST_SECOND: Final = 253402300799.0
"""The end of the year 9999: the last that a timestamp of protobuf can say."""
_TOLD: Final = 5
"""So many contexts are named."""
OF_A_PARTIAL_CONTEXT: Final = """
        segments != (SELECT count(*) FROM loads CROSS JOIN segments ON load = sequence WHERE context = number)
        OR events != (SELECT count(*) FROM loads WHERE context = number)
                   + (SELECT count(*) FROM unloads WHERE context = number)
"""
"""The condition under which a context has not all that it was told."""
PARTIAL: Final = f"SELECT id FROM contexts WHERE {OF_A_PARTIAL_CONTEXT}"  # noqa: S608 - a constant
_PIECE: Final = 1000
"""Rows that are read together."""
_SUMS: Final = """
    SELECT (SELECT coalesce(sum(size), 0) FROM modules) + (SELECT coalesce(sum(size), 0) FROM indexes),
           (SELECT count(*) FROM aliases), (SELECT count(*) FROM contexts)
"""


class Column(NamedTuple):
    """A column as the newest schema has it."""

    name: str
    types: tuple[type, ...]
    required: bool

    def takes(self, value: object) -> bool:
        """Whether symd may have written the value."""
        if value is None:
            return not self.required
        if not isinstance(value, self.types):
            return False
        if isinstance(value, float):
            return 0 <= value <= LAST_SECOND
        return not isinstance(value, int) or self.name in _ANY_NUMBER or _is_number(value)


UNREADABLE: Final = object()
"""In place of a text that is no UTF-8."""


def text(data: bytes) -> Any:
    """A ``text_factory`` for connections to a catalogue that may be damaged."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return UNREADABLE


def columns(connection: sqlite3.Connection, table: str) -> list[Column]:
    """The columns of a table; none where it is not there."""
    described = connection.execute(f"PRAGMA table_info({table})").fetchall()
    return [Column(name, _TYPES.get(kind, (object,)), bool(required)) for _, name, kind, required, *_ in described]


def consistent(table: str, row: Mapping[str, Any]) -> bool:
    """Whether what names a row's subject is a name, a context's id follows from what it says, and an error can be read again. The
    types are right."""
    if table == "contexts":
        named: bool = hashlib.sha256(row["description"].encode()).hexdigest()[:32] == row["id"]
        return named
    if table == "failures" and not failures.is_error(row["error"]):
        return False
    return all(is_digest(row[name]) for name in ("sha256", "module") if name in row)


def faults(
    connection: sqlite3.Connection, tables: Sequence[str] = ALL, pause: Callable[[], None] = lambda: None
) -> list[str]:
    """What cannot be as symd wrote it, in lines for a person: tables, indexes and triggers, and then the values of ``tables``; ``pause``
    is called between pieces of a table. Raises ``sqlite3.Error``."""
    before, connection.text_factory = connection.text_factory, text
    connection.execute("BEGIN")  # others may write meanwhile: all is seen as it is at one moment
    try:
        wrong = _wrong_schema(connection)
        if not wrong:
            wrong = [fault for table in tables for fault in _wrong_values(connection, table, pause)]
        if not wrong and tables is ALL:
            wrong = _wrong_links(connection)
        return wrong or _wrong_sums(connection)
    finally:
        if connection.in_transaction:  # an error of the disk has ended it
            connection.execute("ROLLBACK")
        connection.text_factory = before


def _wrong_schema(connection: sqlite3.Connection) -> list[str]:
    with closing(sqlite3.connect(":memory:")) as fresh:
        for step in MIGRATIONS:
            fresh.executescript(step)
        expected, actual = _described(fresh), _described(connection)
    changed = [
        f"{name} is not as it was made" for name in expected if name in actual and actual[name] != expected[name]
    ]
    missing = [f"{name} is missing" for name in expected if name not in actual]
    added = [f"{name} is not symd's" for name in actual if name not in expected and name.startswith("trigger")]
    return missing + changed + added


def _described(connection: sqlite3.Connection) -> dict[str, object]:
    """What a schema has, by kind and name."""
    found: dict[str, object] = {}
    for kind, name, sql in connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall():
        if kind == "table" and not name.startswith("sqlite_"):
            found[f"table {name}"] = (
                connection.execute(f'PRAGMA table_info("{name}")').fetchall(),
                connection.execute(f'PRAGMA foreign_key_list("{name}")').fetchall(),
            )
        elif kind == "index":
            found[f"index {name}"] = connection.execute(f'PRAGMA index_info("{name}")').fetchall()
        elif kind in ("trigger", "view"):
            found[f"trigger {name}"] = sql
    return found


def _wrong_values(connection: sqlite3.Connection, table: str, pause: Callable[[], None]) -> Iterator[str]:
    described = columns(connection, table)
    names = [column.name for column in described]
    wrong = 0
    example = ""
    rows = connection.execute(f"SELECT {', '.join(names)} FROM {table}")  # noqa: S608 - names of our own schema
    while piece := rows.fetchmany(_PIECE):
        pause()
        for row in piece:
            problem = _problem(table, described, names, row)
            if problem:
                wrong += 1
                example = example or problem
    if wrong:
        yield f"{table}: {wrong} rows cannot be what was written ({example})"


def _problem(table: str, described: Sequence[Column], names: Sequence[str], row: Sequence[object]) -> str:
    for column, value in zip(described, row, strict=True):
        if not column.takes(value):
            return f"{column.name} is {_shown(value)}"
    return "" if consistent(table, dict(zip(names, row, strict=True))) else "what one column says contradicts another"


def _shown(value: object) -> str:
    return "no UTF-8" if value is UNREADABLE else ascii(value)[:40]


def _wrong_links(connection: sqlite3.Connection) -> list[str]:
    """Rows of nothing, and contexts that have not what they were told."""
    found = connection.execute("PRAGMA foreign_key_check").fetchall()
    orphans = [row for row in found if row[0] != "indexes"]  # a start puts these right
    partial = connection.execute(PARTIAL).fetchall()
    wrong = (
        [f"{counted(len(orphans), 'row')} of {orphans[0][0]} and others without what they belong to"] if orphans else []
    )
    return wrong + [f"context {name[:32]} has not all that it was told" for (name,) in partial[:_TOLD]]


def _wrong_sums(connection: sqlite3.Connection) -> list[str]:
    """The sums that triggers keep, and the last numbers that were given."""
    kept = connection.execute("SELECT bytes, aliases, contexts FROM totals").fetchall()
    actual = connection.execute(_SUMS).fetchone()
    numbers = connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall()
    wrong = [f"{name} has the last number {ascii(last)[:40]}" for name, last in numbers if not _is_number(last, _LAST)]
    return wrong if kept == [actual] else [*wrong, f"totals are {ascii(kept[:2])[:80]}, and should be {actual}"]


def _is_number(value: object, largest: int = _LARGEST) -> bool:
    return isinstance(value, int) and 0 <= value < largest
