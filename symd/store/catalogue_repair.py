"""What is wrong with a catalogue: what SQLite says of its pages, and whether its tables, indexes and triggers are those
that symd made. Values that symd did not write are found when they are read (``store.connection``), but for the few on
which every write depends.

A damaged catalogue is set aside in ``damaged/``, and the last good copy of it takes its place, or an empty one where
there is none. Modules that it does not have then are found by their files (``store.recovery``); what else was told
since the copy is lost.

The new one has a file name of its own (``catalogue-2.sqlite`` after ``catalogue.sqlite``), because SQLite forbids to
put another file in the place of one that some process has open. Writers hold ``catalogue.lock`` shared and look for a
newer file before each transaction, so that nothing is written to one that was replaced.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections import deque
from contextlib import closing
from functools import cache
from itertools import chain, count
from pathlib import Path
from typing import Final

from symd.errors import DataLoss
from symd.store.budgets import moment
from symd.store.catalogue import (
    LOCK,
    MIGRATIONS,
    copy_of_catalogue,
    damage,
    existing,
    migrate,
    newest,
    replaced,
    successor,
    translated,
)
from symd.store.files import IncomingFile, disk, locked, make_folder, sync_folder
from symd.store.folder import StorePaths
from symd.system.private_files import new_file

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


def keep_copy(paths: StorePaths, catalogue: Path) -> None:
    """Keep a copy of a catalogue as it is now, in place of an older one. Raises ``DataLoss`` where something is wrong
    with it, ``StoreUnavailable``."""
    with disk(paths.incoming):
        file = IncomingFile(paths.incoming)
        try:
            copy_of_catalogue(catalogue, file.path)
            with translated(file.path), closing(existing(file.path)) as connection:
                check(connection, catalogue)
            file.publish(paths.catalogue_copy)
        finally:
            file.discard()


def replace_catalogue(
    paths: StorePaths, damaged: Path, wrong: str, *, durable: bool = True, lock_seconds: float | None = None
) -> str:
    """Replace a catalogue with which something is wrong; what to tell a person of it, "" where another process has done
    so. Raises ``StoreUnavailable``."""
    with disk(paths.root), locked(paths.root / LOCK, seconds=lock_seconds):
        if newest(paths.root) != damaged:
            return ""
        lost = _make_ready(paths)
        paths.catalogue_copy.rename(successor(damaged))
        if durable:
            sync_folder(paths.root)
        aside = _set_aside(damaged, paths)
    return (
        f"the catalogue was damaged ({wrong}), and is {aside} now; lost are labels, aliases, contexts and events{lost}"
    )


def finish_replacing(paths: StorePaths, lock_seconds: float | None = None) -> None:
    """Set aside the damaged catalogue that who has replaced it left in its place, being killed."""
    if replaced(paths.root):
        with locked(paths.root / LOCK, seconds=lock_seconds):
            for damaged in replaced(paths.root):
                _set_aside(damaged, paths)


def _make_ready(paths: StorePaths) -> str:
    """Make the copy ready to be the catalogue, or an empty one in its place; which of what was told is lost."""
    copy = paths.catalogue_copy
    if copy.exists():
        since = f" since {moment(copy.stat().st_mtime)}"
        if _is_ready(copy):
            return since
        _set_aside(copy, paths)
    os.close(new_file(copy))
    try:
        _is_ready(copy)
    except BaseException:
        copy.unlink(missing_ok=True)  # it is no copy, and takes room, of which there may be none
        raise
    return ", of which there was no copy"


def _is_ready(path: Path) -> bool:
    """Take a copy to today's schema, and let its log of modules be another one, and numbers be such as were never
    given: positions and numbers that somebody remembers mean nothing here. False where it is damaged."""
    try:
        with translated(path), closing(existing(path)) as connection:
            connection.execute("PRAGMA journal_mode=DELETE")  # nothing of it is in another file when it is renamed
            migrate(connection, path)
            connection.execute("UPDATE module_log SET id = lower(hex(randomblob(8)))")
            connection.execute("DELETE FROM sqlite_sequence WHERE name IN ('contexts', 'loads')")
            query = "INSERT INTO sqlite_sequence (name, seq) VALUES ('contexts', :at), ('loads', :at)"
            connection.execute(query, {"at": time.time_ns() // 1000})
            check(connection, path)
    except DataLoss:
        return False
    return True


def _set_aside(damaged: Path, paths: StorePaths) -> Path:
    """Where the damaged file stands from now on, with what SQLite keeps beside it."""
    make_folder(paths.damaged)
    stem = damaged.stem + time.strftime("-%Y%m%dT%H%M%SZ", time.gmtime())
    names = (f"{stem}{further}.sqlite" for further in chain([""], (f"-{number}" for number in count(2))))
    aside = next(path for name in names if not (path := paths.damaged / name).exists())
    for suffix in ("-wal", "-shm", "-journal", ""):
        file = damaged.with_name(damaged.name + suffix)
        if file.exists():
            file.replace(aside.with_name(aside.name + suffix))
    return aside
