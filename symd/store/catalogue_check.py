"""What is wrong with a catalogue: what SQLite says of its pages, and whether its tables, indexes and triggers are those that symd made. Values that symd
did not write are found when they are read (``store.connection``), but for the few on which every write depends."""

from __future__ import annotations

import sqlite3
from collections import deque
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Final

from symd.errors import DataLoss
from symd.store.catalogue import MIGRATIONS, damage, existing, translated

_MADE: Final = """
    SELECT made.type, made.name, part.name, part.type, part."notnull", part.pk
    FROM sqlite_master AS made LEFT JOIN pragma_table_info(made.name) AS part ON made.type = 'table'
    WHERE made.name NOT LIKE 'sqlite_%'
"""
_HAS_NUMBERS: Final = f"""
    SELECT (SELECT count(*) FROM totals WHERE typeof(bytes) || typeof(aliases) || typeof(contexts) = '{"integer" * 3}') = 1
        AND (SELECT count(*) FROM module_log WHERE typeof(id) = 'text') = 1
        AND NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE typeof(seq) != 'integer' OR seq NOT BETWEEN 0 AND {1 << 61})
"""  # noqa: S608 - constants
"""Whether the sums, the name of the log of modules and the last numbers that were given are some."""
Part = tuple[str, str, str | None, str | None, int | None, int | None]
"""A part of a schema: what it is and its name; of a table's column also its name, type, whether it is required, and
its place in the key."""


def check(connection: sqlite3.Connection, path: Path) -> None:
    """Raises ``DataLoss`` where something is wrong with the catalogue at ``path``, and ``sqlite3.Error``."""
    wrong = _fault(connection)
    if wrong:
        raise damage(path, "", wrong)


def fault_of(path: Path) -> str:
    """What is wrong with a catalogue's file, for a person; "" where nothing is. Raises ``StoreUnavailable``."""
    try:
        with translated(path), closing(existing(path)) as connection:
            check(connection, path)
    except DataLoss as error:
        return error.metadata["fault"]
    return ""


def _fault(connection: sqlite3.Connection) -> str:
    found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    if found != "ok":
        return " ".join(found.split())
    missing = sorted({f"{kind} {name}" for kind, name, *_ in _schema() - _parts(connection)})
    if missing:
        return f"missing, or not as it was made: {', '.join(missing[:3])}"
    for table in ("modules", "indexes"):  # a start reads every row; of a text that is none SQLite says nothing before
        deque(connection.execute(f"SELECT * FROM {table}"), maxlen=0)  # noqa: S608 - constants
    return "" if connection.execute(_HAS_NUMBERS).fetchone()[0] else "a sum or a last number is none"


@cache
def _schema() -> frozenset[Part]:
    with closing(sqlite3.connect(":memory:")) as connection:
        for step in MIGRATIONS:
            connection.executescript(step)
        return _parts(connection)


def _parts(connection: sqlite3.Connection) -> frozenset[Part]:
    return frozenset(connection.execute(_MADE).fetchall())
