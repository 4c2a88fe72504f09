"""What can still be read of a damaged catalogue, copied to a fresh one.

Each table is read from its beginning until damage stops it, and then from its end. A row is kept where its values have the
types of their columns and what it refers to was kept. A context is kept with everything that was told of it or not at
all: one whose unloads are lost would answer with a module that is there no longer."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from symd.model.identities import is_digest

TABLES = ("modules", "failures", "aliases", "contexts", "loads", "segments", "unloads")
"""In an order in which what is referred to comes first. Of the others, ``indexes`` is made anew from the files."""
_TYPES: dict[str, tuple[type, ...]] = {"INTEGER": (int,), "REAL": (float, int), "TEXT": (str,), "BLOB": (bytes,)}
_MISSING: dict[str, dict[str, Any]] = {"aliases": {"context": ""}}
"""Values of columns that catalogues of older schemas do not have."""
_REPLACEMENT = "\ufffd"
_PARTIAL = """
    DELETE FROM contexts WHERE
        segments != (SELECT count(*) FROM loads CROSS JOIN segments ON load = sequence WHERE context = number)
        OR events != (SELECT count(*) FROM loads WHERE context = number)
                   + (SELECT count(*) FROM unloads WHERE context = number)
"""
_COUNTED = """
    UPDATE contexts SET events = (SELECT count(*) FROM loads WHERE context = number)
                               + (SELECT count(*) FROM unloads WHERE context = number) WHERE events = 0
"""
_OF_NO_CONTEXT = "DELETE FROM aliases WHERE context != '' AND context NOT IN (SELECT id FROM contexts)"
_FURTHER = 1_000_000
"""Numbers that a fresh catalogue leaves out, so that none means what it meant before."""


@dataclass(slots=True)
class Salvage:
    """Rows that were kept, by table; the tables of which some may be lost; how many contexts were given up."""

    kept: dict[str, int] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    contexts_lost: int = 0

    def __str__(self) -> str:
        kept = ", ".join(f"{count} {table}" for table, count in self.kept.items() if count) or "nothing"
        lost = f"; not all could be read of {', '.join(self.lost)}" if self.lost else ""
        given_up = f"; {self.contexts_lost} contexts were not whole" if self.contexts_lost else ""
        return f"kept {kept}{lost}{given_up}"


class _Column(NamedTuple):
    name: str
    types: tuple[type, ...]
    required: bool


def salvage(damaged: Path, fresh: sqlite3.Connection) -> Salvage:
    """Copy what can be read of the catalogue ``damaged`` to ``fresh``, which has the newest schema and no rows, within
    one transaction of the caller's."""
    found = Salvage()
    with closing(sqlite3.connect(damaged, isolation_level=None)) as connection:
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        connection.row_factory = sqlite3.Row
        for table in TABLES:
            found.kept[table] = _copy(connection, fresh, table, found.lost)
    fresh.execute("UPDATE modules SET used = added WHERE used = 0")
    _give_up_partial_contexts(fresh, found)
    for table in ("contexts", "loads"):
        fresh.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
        number = "number" if table == "contexts" else "sequence"
        last = fresh.execute(f"SELECT coalesce(max({number}), 0) FROM {table}").fetchone()[0]  # noqa: S608 - constants
        fresh.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table, last + _FURTHER))
    return found


def _copy(damaged: sqlite3.Connection, fresh: sqlite3.Connection, table: str, lost: list[str]) -> int:
    """Rows of one table that were kept; ``lost`` gets its name where others may have been in it."""
    columns = _columns(fresh, table)
    given = [column.name for column in columns]
    insert = f"INSERT OR IGNORE INTO {table} ({', '.join(given)}) VALUES ({', '.join('?' * len(given))})"  # noqa: S608 - names of our own schema
    kept, whole = 0, True
    for row in _rows(damaged, table):
        if row is None:
            whole = False
            continue
        values = _checked(table, columns, row)
        if values is None:
            whole = False
            continue
        try:
            kept += fresh.execute(insert, values).rowcount
        except sqlite3.IntegrityError:
            whole = False
    if not whole:
        lost.append(table)
    return kept


def _columns(fresh: sqlite3.Connection, table: str) -> list[_Column]:
    described = fresh.execute(f"PRAGMA table_info({table})").fetchall()
    return [_Column(name, _TYPES.get(kind, (object,)), bool(required)) for _, name, kind, required, *_ in described]


def _rows(damaged: sqlite3.Connection, table: str) -> Iterator[dict[str, Any] | None]:
    """The rows that can be read, from both ends; None where some cannot be. A row may come twice."""
    for order in ("ASC", "DESC"):
        try:
            keys = _keys(damaged, table)
            by = ", ".join(f"{key} {order}" for key in keys)
            for row in damaged.execute(f"SELECT * FROM {table} NOT INDEXED ORDER BY {by}"):  # noqa: S608 - likewise
                yield dict(row)
        except sqlite3.Error:
            yield None
        else:
            return


def _keys(damaged: sqlite3.Connection, table: str) -> list[str]:
    """What a table's rows are sorted by on disk."""
    keys = [(row["pk"], row["name"]) for row in damaged.execute(f"PRAGMA table_info({table})") if row["pk"]]
    return [name for _, name in sorted(keys)] or ["rowid"]


def _checked(table: str, columns: list[_Column], row: dict[str, Any]) -> list[Any] | None:
    """The values of ``columns``; None where they cannot be what was written."""
    values = []
    for column in columns:
        default = _MISSING.get(table, {}).get(column.name, 0 if column.required else None)
        value = row.get(column.name, default)
        if value is None:
            if column.required:
                return None
        elif not isinstance(value, column.types) or (isinstance(value, str) and _REPLACEMENT in value):
            return None
        values.append(value)
    return values if _consistent(table, row) else None


def _consistent(table: str, row: dict[str, Any]) -> bool:
    """Whether what names a row's subject is a name, and a context's id follows from what it says."""
    if table == "contexts":
        return hashlib.sha256(row["description"].encode()).hexdigest()[:32] == str(row["id"])
    return is_digest(row["sha256"]) if "sha256" in row else True


def _give_up_partial_contexts(fresh: sqlite3.Connection, found: Salvage) -> None:
    """A context whose events are not counted (its catalogue was of an older schema) is whole where the tables are."""
    if not {"loads", "unloads"} & set(found.lost):
        fresh.execute(_COUNTED)
    found.contexts_lost = fresh.execute(_PARTIAL).rowcount
    fresh.execute(_OF_NO_CONTEXT)
