"""Whether a catalogue can be what symd wrote: SQLite vouches for its pages, not for tables that somebody dropped or values of the
wrong type, which would end whoever reads them."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final, NamedTuple

from symd.model.texts import counted
from symd.store import failures
from symd.store.catalogue import MIGRATIONS
from symd.store.connection import (
    ANY_NUMBER,
    ANYTHING,
    BYTES,
    DIGEST,
    DOCUMENT,
    FILE_SIZE,
    MOMENT,
    NUMBER,
    TEXT,
    Kind,
)

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
_KINDS: Mapping[str, Kind] = {"INTEGER": NUMBER, "REAL": MOMENT, "TEXT": TEXT, "BLOB": BYTES}
_OF_COLUMNS: Mapping[str, Kind] = {
    "sha256": DIGEST,
    "module": DIGEST,
    **dict.fromkeys(("address", "offset", "loaded", "unloaded", "time"), ANY_NUMBER),
    **dict.fromkeys(("description", "error"), DOCUMENT),
}
"""Columns of which their type says less."""
_OF_FILES: Final = ("modules", "indexes")
"""Tables whose sizes are those of files."""
_LAST: Final = 1 << 62
"""The same for the last number that was given: a fresh catalogue goes on from there (``salvage``)."""
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
    kind: Kind
    required: bool

    def takes(self, value: object) -> bool:
        """Whether symd may have written the value."""
        return not self.required if value is None else self.kind.takes(value)


UNREADABLE: Final = object()
"""In place of a text that is no UTF-8."""


def text(data: bytes) -> Any:
    """A ``text_factory`` for connections to a catalogue that may be damaged."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return UNREADABLE


def newest_columns() -> dict[str, list[Column]]:
    """The columns of each table of ``ALL`` as the newest schema has them, in whatever catalogue."""
    with closing(sqlite3.connect(":memory:")) as fresh:
        for step in MIGRATIONS:
            fresh.executescript(step)
        return {table: columns(fresh, table) for table in ALL}


def columns(connection: sqlite3.Connection, table: str) -> list[Column]:
    """The columns of a table; none where it is not there."""
    described = connection.execute(f"PRAGMA table_info({table})").fetchall()
    return [Column(name, _kind(table, name, declared), bool(required)) for _, name, declared, required, *_ in described]


def _kind(table: str, name: str, declared: str) -> Kind:
    if name == "size" and table in _OF_FILES:
        return FILE_SIZE
    return _OF_COLUMNS.get(name) or _KINDS.get(declared, ANYTHING)


def consistent(table: str, row: Mapping[str, Any]) -> bool:
    """Whether a context's id follows from what it says, and an error can be read again. The types are right."""
    if table == "contexts":
        named: bool = hashlib.sha256(row["description"].encode()).hexdigest()[:32] == row["id"]
        return named
    return table != "failures" or failures.is_error(row["error"])


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
            problem = problem_of(table, described, row)
            if problem:
                wrong += 1
                example = example or problem
    if wrong:
        yield f"{table}: {wrong} rows cannot be what was written ({example})"


def problem_of(table: str, described: Sequence[Column], row: Sequence[object]) -> str:
    """What is wrong with the values of a row, "" where nothing is."""
    for column, value in zip(described, row, strict=True):
        if not column.takes(value):
            return f"{column.name} is {_shown(value)}"
    named = dict(zip((column.name for column in described), row, strict=True))
    return "" if consistent(table, named) else "what one column says contradicts another"


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


def _is_number(value: object, largest: int) -> bool:
    return isinstance(value, int) and 0 <= value < largest
