"""A damaged catalogue is replaced by one that has what could be read of it; modules that it does not have then are found
by their files (``store.recovery``).

The fresh one has a file name of its own (``catalogue-2.sqlite`` after ``catalogue.sqlite``), because SQLite forbids to put
another file in the place of one that some process has open. Writers hold ``catalogue.lock`` shared and look for a newer
file before each transaction, so that nothing is written to one that was replaced. The damaged one goes to ``damaged/``."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

from symd.errors import DataLoss, StoreUnavailable
from symd.store import soundness
from symd.store.catalogue import LOCK, copy_in_any_case, existing, migrate, newest, replaced, successor, translated
from symd.store.catalogue_copy import copy_with_log
from symd.store.files import disk, locked, make_folder, sync_folder
from symd.store.lost_schema import fold_log, is_schema_lost, restore_schema
from symd.store.paths import StorePaths
from symd.store.salvage import TABLES, Salvage, salvage
from symd.system.private_files import new_file

log = logging.getLogger("symd.store")

_FRESH = "catalogue.fresh"
"""How the names of files begin that a rebuild makes."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """Where the damaged catalogue stands now, what was wrong with it, and what was kept of it."""

    damaged: Path
    fault: str
    salvage: Salvage

    def __str__(self) -> str:
        return f"the catalogue was damaged ({self.fault}), and is {self.damaged} now; {self.salvage}"


def rebuild(
    paths: StorePaths, damaged: Path, fault: str, *, durable: bool = True, lock_seconds: float | None = None
) -> Rebuilt | None:
    """Replace the catalogue ``damaged``, which has that fault, and log that; None where another process has done so. Raises
    ``StoreUnavailable``."""
    rebuilt = replaced_catalogue(paths, damaged, fault, durable=durable, lock_seconds=lock_seconds)
    if rebuilt is not None:
        log.error("%s", rebuilt)
    return rebuilt


def replaced_catalogue(
    paths: StorePaths, damaged: Path, fault: str, *, durable: bool = True, lock_seconds: float | None = None
) -> Rebuilt | None:
    """``rebuild`` for whoever tells of it in other ways than the log."""
    with disk(paths.root), locked(paths.root / LOCK, seconds=lock_seconds):
        if newest(paths.root) != damaged:
            return None
        fresh = paths.root / _FRESH
        try:
            found = _filled(fresh, damaged)
        except BaseException:
            fresh.unlink(missing_ok=True)  # it takes room, of which there may be none
            raise
        fresh.rename(successor(damaged))
        if durable:
            sync_folder(paths.root)
        return Rebuilt(_moved_aside(damaged, paths), fault, found)


def rescue(damaged: Path, to: Path) -> None:
    """Make the catalogue ``to`` of what can be read of one that stays where it is, beside which nothing may be written: it is read from a copy.
    Raises ``StoreUnavailable`` and OSError."""
    copied = to.with_name(f"{to.name}.damaged")
    try:
        copy_with_log(damaged, copied)
        found = _filled(to, copied)
    finally:
        _remove(copied)
    log.error("of %s were %s", damaged, found)


def finish_rebuild(paths: StorePaths, lock_seconds: float | None = None) -> None:
    """Move aside the damaged catalogue that a rebuild which was killed has replaced and left in its place, and remove what it was making."""
    if replaced(paths.root) or _unfinished(paths):
        with locked(paths.root / LOCK, seconds=lock_seconds):
            for damaged in replaced(paths.root):
                _moved_aside(damaged, paths)
            for left in _unfinished(paths):
                left.unlink(missing_ok=True)


def _unfinished(paths: StorePaths) -> list[Path]:
    """Files of a catalogue that is being made, with what it is made of; under the lock, of one that is no more."""
    return [path for path in paths.root.iterdir() if path.name.startswith(_FRESH)]


def _filled(fresh: Path, damaged: Path) -> Salvage:
    """Make the file ``fresh``, with what can be read of ``damaged``."""
    fresh.unlink(missing_ok=True)
    os.close(new_file(fresh))
    try:
        with closing(existing(fresh)) as connection:
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA foreign_keys=ON")
            migrate(connection, fresh)
            with _with_a_schema(damaged, connection, fresh) as readable:
                connection.execute("BEGIN")
                found = salvage(readable, connection)
                connection.execute("COMMIT")
    except sqlite3.Error as error:
        hint = "look whether the disk is full"
        said = {"file": str(fresh), "sqlite": getattr(error, "sqlite_errorname", "")}
        what = f"no fresh catalogue could be made: {error}"
        raise StoreUnavailable(what, where=str(fresh), hint=hint, metadata=said) from error
    return found


@contextmanager
def _with_a_schema(damaged: Path, connection: sqlite3.Connection, fresh: Path) -> Iterator[Path]:
    """The damaged catalogue, or where its schema is lost a copy that has that of the ``fresh`` one, to which nothing was written yet."""
    if not is_schema_lost(damaged, connection):
        yield damaged
        return
    copied = fresh.with_name(f"{fresh.name}.readable")
    _remove(copied)  # a log of writes of a rebuild that was killed would be taken for this copy's
    try:
        os.close(new_file(copied))
        copy_in_any_case(damaged, copied)
        fold_log(copied)
        restore_schema(copied, fresh, TABLES)
        yield copied
    finally:
        _remove(copied)


def _remove(copied: Path) -> None:
    """Remove a copy with what SQLite keeps beside it."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        Path(f"{copied}{suffix}").unlink(missing_ok=True)


def _moved_aside(damaged: Path, paths: StorePaths) -> Path:
    """Where the damaged file stands from now on, with what SQLite keeps beside it."""
    make_folder(paths.damaged)
    stem = damaged.stem + time.strftime("-%Y%m%dT%H%M%SZ", time.gmtime())
    names = (f"{stem}{further}.sqlite" for further in chain([""], (f"-{number}" for number in count(2))))
    aside = next(path for name in names if not (path := paths.damaged / name).exists())
    for suffix in ("-wal", "-shm", ""):
        file = damaged.with_name(damaged.name + suffix)
        if file.exists():
            file.replace(aside.with_name(aside.name + suffix))
    return aside


def faults(path: Path) -> list[str]:
    """What is wrong with a catalogue: at most a hundred lines about its pages, or what its tables and values have. Raises
    ``StoreUnavailable``."""
    try:
        with translated(path), closing(existing(path)) as connection:
            found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(100)")]
            return soundness.faults(connection) if found == ["ok"] else found
    except DataLoss as error:
        return [error.metadata["fault"]]
