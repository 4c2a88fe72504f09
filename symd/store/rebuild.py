"""A damaged catalogue is set aside in ``damaged/``, and the last good copy of it takes its place, or an empty one where there is none. Modules that it
does not have then are found by their files (``store.recovery``); what else was told since the copy is lost.

The new one has a file name of its own (``catalogue-2.sqlite`` after ``catalogue.sqlite``), because SQLite forbids to put
another file in the place of one that some process has open. Writers hold ``catalogue.lock`` shared and look for a newer
file before each transaction, so that nothing is written to one that was replaced."""

from __future__ import annotations

import os
import time
from contextlib import closing
from itertools import chain, count
from pathlib import Path

from symd.errors import DataLoss
from symd.store.catalogue import LOCK, copy_of_catalogue, existing, migrate, newest, replaced, successor, translated
from symd.store.catalogue_check import check
from symd.store.eviction_log import moment
from symd.store.files import IncomingFile, disk, locked, make_folder, sync_folder
from symd.store.paths import StorePaths
from symd.system.private_files import new_file


def keep_copy(paths: StorePaths, catalogue: Path) -> None:
    """Keep a copy of a catalogue as it is now, in place of an older one. Raises ``DataLoss`` where something is wrong with it, ``StoreUnavailable``."""
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
    """Replace a catalogue with which something is wrong; what to tell a person of it, "" where another process has done so. Raises
    ``StoreUnavailable``."""
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
    """Take a copy to today's schema, and let its log of modules be another one, and numbers be such as were never given: positions and numbers that
    somebody remembers mean nothing here. False where it is damaged."""
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
