"""What can still be read of a damaged catalogue, copied to a fresh one.

Each table is read from its beginning until damage stops it, and then from its end. A row is kept where its values can be
what was written (``soundness``) and what it refers to was kept. A context is kept with everything that was told of it or not at
all: one whose unloads are lost would answer with a module that is there no longer."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from symd.model.texts import counted
from symd.store.catalogue import existing
from symd.store.soundness import OF_A_PARTIAL_CONTEXT, Column, columns, consistent, text

TABLES = ("modules", "failures", "attempts", "aliases", "contexts", "loads", "segments", "unloads")
"""In an order in which what is referred to comes first. Of the others, ``indexes`` is made anew from the files."""
_MISSING: dict[str, dict[str, Any]] = {"aliases": {"context": ""}}
"""Values of columns that catalogues of older schemas do not have."""
_MENDED: dict[str, dict[str, Callable[[], Any]]] = {
    "modules": {"size": int, "format": str, "label": str, "added": time.time, "used": int}
}
"""What a value that cannot be what was written is replaced by: a module keeps its aliases all the same. One of the wrong size is
looked at again (``recovery``), one without format is indexed."""
_PARTIAL = f"DELETE FROM contexts WHERE {OF_A_PARTIAL_CONTEXT}"  # noqa: S608 - a constant
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
        given_up = f"; {counted(self.contexts_lost, 'context')} given up, not whole" if self.contexts_lost else ""
        return f"kept {kept}{lost}{given_up}"


def salvage(damaged: Path, fresh: sqlite3.Connection) -> Salvage:
    """Copy what can be read of the catalogue ``damaged`` to ``fresh``, which has the newest schema and no rows, within
    one transaction of the caller's."""
    found = Salvage()
    with closing(existing(damaged)) as connection:
        connection.text_factory = text
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
    described = columns(fresh, table)
    given = [column.name for column in described]
    insert = f"INSERT OR IGNORE INTO {table} ({', '.join(given)}) VALUES ({', '.join('?' * len(given))})"  # noqa: S608 - names of our own schema
    kept, whole = 0, True
    for row in _rows(damaged, table):
        values = None if row is None else _mended(table, described, row)
        if values is None:
            whole = False
            continue
        whole = whole and row is not None and all(row.get(name, value) == value for name, value in values.items())
        try:
            kept += fresh.execute(insert, tuple(values.values())).rowcount
        except sqlite3.IntegrityError:
            whole = False
    if not whole:
        lost.append(table)
    return kept


def _rows(damaged: sqlite3.Connection, table: str) -> Iterator[dict[str, Any] | None]:
    """The rows that can be read, from both ends; None where some cannot be. A row may come twice."""
    for order in ("ASC", "DESC"):
        try:
            keys = _keys(damaged, table)
            by = ", ".join(f"{key} {order}" for key in keys)
            for row in damaged.execute(f"SELECT * FROM {table} NOT INDEXED ORDER BY {by}"):  # noqa: S608 - likewise
                yield dict(row)
        except (sqlite3.Error, UnicodeDecodeError):
            yield None
        else:
            return


def _keys(damaged: sqlite3.Connection, table: str) -> list[str]:
    """What a table's rows are sorted by on disk."""
    keys = [(row["pk"], row["name"]) for row in damaged.execute(f"PRAGMA table_info({table})") if row["pk"]]
    return [name for _, name in sorted(keys)] or ["rowid"]


def _mended(table: str, described: Sequence[Column], row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The values of a row by column; None where they cannot be what was written, and nothing can take their place."""
    values: dict[str, Any] = {}
    for column in described:
        default = _MISSING.get(table, {}).get(column.name, 0 if column.required else None)
        value = row.get(column.name, default)
        if not column.takes(value):
            instead = _MENDED.get(table, {}).get(column.name)
            if instead is None:
                return None
            value = instead()
        values[column.name] = value
    return values if consistent(table, values) else None


def _give_up_partial_contexts(fresh: sqlite3.Connection, found: Salvage) -> None:
    """A context whose events are not counted (its catalogue was of an older schema) is whole where the tables are."""
    if not {"loads", "unloads"} & set(found.lost):
        fresh.execute(_COUNTED)
    found.contexts_lost = fresh.execute(_PARTIAL).rowcount
    fresh.execute(_OF_NO_CONTEXT)
