"""What a start does after a kill: removes leftovers and makes files and catalogue agree again.

Other processes may be at work in the same store, so each change is made under the writers' turn and looks again.

What is wrong with a catalogue is what SQLite says of its pages, and whether its tables, indexes and triggers are those
that symd made. A damaged catalogue is set aside in ``damaged/``, and the last good copy of it takes its place, or an
empty one where there is none. Modules that it does not have then are found by their files; what else was told since the
copy is lost. A start does that, and no daemon that has it open: such a one answers what it can, and refuses writes once
another file is in the place of its own.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Collection
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

from symd.errors import DataLoss, StoreUnavailable
from symd.model.identities import Digest, is_digest
from symd.model.summaries import ModuleRecord
from symd.model.texts import counted
from symd.store import rows
from symd.store.budgets import moment, totals
from symd.store.catalogue import LOCK, MIGRATIONS, Catalogue, catalogue_error, damage, existing, migrate, translated
from symd.store.files import (
    LOCK_SECONDS,
    NOT_MADE,
    IncomingFile,
    disk,
    locked,
    locked_if_possible,
    make_folder,
    move_into,
    sha256_of,
    size_of,
    sync_folder,
)
from symd.store.folder import StorePaths, Tree, check_links, check_no_others, keep_own_from_others, look
from symd.system.private_files import new_file, open_private, write_bytes

log = logging.getLogger("symd.store")


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a start mended: counts of leftover files removed and of rows dropped, and the digests whose files had other
    bytes and were moved to ``damaged/``."""

    leftovers: int = 0
    dropped: int = 0
    damaged: tuple[Digest, ...] = ()
    uncatalogued: tuple[Digest, ...] = ()
    """Module files that have no row yet, or one that says another size: nobody has looked whether their bytes are what
    their names say."""


def prepared(paths: StorePaths, *, durable: bool) -> Tree:
    """Make the folders of a store that are not there, which nobody else may open; what is there then. Raises
    ``FailedPrecondition`` where the folder is used for something else or links lead out of it, and OSError."""
    check_no_others(paths)
    with disk(paths.root, NOT_MADE):
        make_folder(paths.root, durable=durable)
    check_links(paths)
    paths.create(durable=durable)
    keep_own_from_others(paths)
    return look(paths)


def recover(paths: StorePaths, catalogue: Catalogue, tree: Tree) -> Recovery:
    """Drop rows without a file, remove indexes of nothing, forget attempts to index what is gone, and name the files
    that have no right row: to hash them may take long, which is ``adopt``'s part. A row whose file was set aside as
    damaged stays. ``tree`` is what was there before the catalogue was opened."""
    known = catalogue.all_sizes()
    uncatalogued = {digest for digest, size in tree.modules.items() if known.get(digest) != size}
    gone = known.keys() - tree.modules.keys() - paths.damaged_modules()
    dropped = _drop_rows(paths, catalogue, gone)
    _reconcile_indexes(paths, catalogue, tree, uncatalogued, known.keys() - gone)
    with catalogue.writing(survives_power_cut=False) as connection:
        rows.forget_attempts_of_nothing(connection)
    return Recovery(dropped=dropped, uncatalogued=tuple(sorted(uncatalogued)))


def adopt(
    paths: StorePaths, catalogue: Catalogue, found: Recovery, stop: Callable[[], bool] = lambda: False
) -> Recovery:
    """Give the files without a right row theirs, after hashing them, until there are none or ``stop`` says so."""
    damaged, left = list(found.damaged), list(found.uncatalogued)
    while left and not stop():
        digest = left.pop(0)
        if not _adopt(paths, catalogue, digest):
            damaged.append(digest)
    added = len(found.uncatalogued) - len(left) - len(damaged) + len(found.damaged)
    if added:
        log.info("%s added to the catalogue by their files, without labels and aliases", counted(added, "module"))
    _reconcile_indexes(paths, catalogue, look(paths), set(left), catalogue.digests())
    return replace(found, damaged=tuple(damaged), uncatalogued=tuple(left))


def _adopt(paths: StorePaths, catalogue: Catalogue, digest: Digest) -> bool:
    """Give a file its row; False when its bytes are not what its name says and it was moved away."""
    path = paths.module(digest)
    try:
        looked_at = path.lstat().st_ino
        whole = sha256_of(path) == digest
        with catalogue.writing(survives_power_cut=False) as connection:
            if whole:
                status = path.lstat()
                rows.insert(connection, ModuleRecord(digest, status.st_size, "", "", status.st_mtime))
            elif path.lstat().st_ino == looked_at:
                aside = move_into(paths.damaged, path, digest)
                log.error("%s had other bytes than the module; it is %s now", path, aside)
            else:
                return True  # it was added again meanwhile
    except FileNotFoundError:
        return True
    return whole


def _drop_rows(paths: StorePaths, catalogue: Catalogue, digests: set[Digest]) -> int:
    if not digests:
        return 0
    with catalogue.writing() as connection:
        gone = [each for each in digests if not is_digest(each) or size_of(paths.module(each)) is None]
        rows.delete(connection, gone)
    return len(gone)


def _reconcile_indexes(
    paths: StorePaths, catalogue: Catalogue, tree: Tree, uncatalogued: set[Digest], known: Collection[Digest]
) -> None:
    """Remove index files of modules that are not there, and note in the catalogue those that are; those of
    ``uncatalogued`` wait. ``known`` are the modules that have a row, or some of them: of others it is asked."""
    noted = catalogue.index_sizes()
    files = {key: size for key, size in tree.indexes.items() if key[0] not in uncatalogued}
    if files == noted and all(digest in known for digest, _ in files):
        return
    with catalogue.writing() as connection:
        for digest, version in sorted(key for key, size in files.items() if noted.get(key) != size):
            path = paths.index(digest, version)
            size = size_of(path)
            if size is not None and rows.exists(connection, digest):
                rows.keep_index(connection, digest, version, size)
            else:
                path.unlink(missing_ok=True)
        rows.forget_indexes(
            connection, [key for key in noted if not is_digest(key[0]) or size_of(paths.index(*key)) is None]
        )


_MADE: Final = """
    SELECT made.type, made.name, part.name, part.type, part."notnull", part.pk
    FROM sqlite_master AS made LEFT JOIN pragma_table_info(made.name) AS part ON made.type = 'table'
    WHERE made.name NOT LIKE 'sqlite_%'
"""
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
    totals(connection)
    return ""


@cache
def _schema() -> frozenset[Part]:
    with closing(sqlite3.connect(":memory:")) as connection:
        for step in MIGRATIONS:
            connection.executescript(step)
        return _parts(connection)


def _parts(connection: sqlite3.Connection) -> frozenset[Part]:
    return frozenset(connection.execute(_MADE).fetchall())


def copy_of_catalogue(path: Path, to: Path) -> None:
    """Copy a catalogue as it is at one moment, with what its log of writes has. Where nothing may be written beside it,
    where SQLite cannot read it, its files are copied. Raises ``DataLoss``, ``StoreUnavailable`` and OSError."""
    if not os.access(path.parent, os.W_OK):
        copy_files(path, to)
        return
    os.close(open_private(to, os.O_RDWR))
    with translated(path), closing(existing(path)) as source, closing(existing(to)) as target:
        try:
            source.backup(target)
        except sqlite3.OperationalError as error:
            raise catalogue_error(to if error.sqlite_errorname == "SQLITE_FULL" else path, error) from error


def copy_files(path: Path, to: Path) -> None:
    """Copy a catalogue and its log of writes byte by byte, as they are at one moment: anew where a writer has changed
    them meanwhile, without writers where its lock can be had. Raises ``StoreUnavailable`` where they never stay as they
    are, and OSError."""
    files = [Path(f"{path}{ending}") for ending in ("-wal", "")]
    with ExitStack() as stack:
        for attempt in range(_COPIES):
            if attempt == 1:
                stack.enter_context(locked_if_possible(path.parent / LOCK, LOCK_SECONDS))
            before = [_state(file) for file in files]
            for file in files:
                copy = to.with_name(to.name + file.name.removeprefix(path.name))
                try:
                    write_bytes(copy, file.read_bytes())
                except FileNotFoundError:
                    copy.unlink(missing_ok=True)
            if before == [_state(file) for file in files]:
                return
    raise StoreUnavailable(
        "the catalogue is written all the time: no copy of it is whole",
        where=str(path),
        hint="try again when less is written, or end the daemon that writes",
        metadata={"file": str(path)},
    )


_COPIES = 10
"""Attempts at a copy of files that are written meanwhile."""


def _state(file: Path) -> tuple[int, int, int] | None:
    """What changes with each write of a file; None where there is none."""
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def keep_copy(paths: StorePaths) -> None:
    """Keep a copy of the catalogue as it is now, in place of an older one. Raises ``DataLoss`` where something is wrong
    with it, ``StoreUnavailable``."""
    with disk(paths.incoming):
        file = IncomingFile(paths.incoming)
        try:
            copy_of_catalogue(paths.catalogue, file.path)
            with translated(file.path), closing(existing(file.path)) as connection:
                check(connection, paths.catalogue)
            file.publish(paths.catalogue_copy)
        finally:
            file.discard()


def replace_catalogue(paths: StorePaths, wrong: str, *, durable: bool = True, lock_seconds: float | None = None) -> str:
    """Replace a catalogue with which something is wrong; what to tell a person of it, "" where another process has done
    so. Raises ``StoreUnavailable``."""
    with disk(paths.root), locked(paths.root / LOCK, seconds=lock_seconds):
        if _is_sound(paths.catalogue):
            return ""
        lost = _make_ready(paths)
        aside = _move_catalogue_aside(paths.catalogue, paths)
        paths.catalogue_copy.rename(paths.catalogue)
        if durable:
            sync_folder(paths.root)
    return (
        f"the catalogue was damaged ({wrong}), and is {aside} now; lost are labels, aliases, contexts and events{lost}"
    )


def _make_ready(paths: StorePaths) -> str:
    """Make the copy ready to be the catalogue, or an empty one in its place; which of what was told is lost."""
    copy, lost = paths.catalogue_copy, ", of which there was no copy"
    if copy.exists() and _is_sound(copy):
        lost = f" since {moment(copy.stat().st_mtime)}"
    else:
        copy.unlink(missing_ok=True)
        os.close(new_file(copy))
    with translated(copy), closing(existing(copy)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")  # nothing of it is in another file when it is renamed
        migrate(connection, copy)
        _begin_anew(connection)
    return lost


def _begin_anew(connection: sqlite3.Connection) -> None:
    """Let the log of modules be another one, and numbers be such as were never given: positions and numbers that
    somebody remembers mean nothing here."""
    connection.execute("UPDATE module_log SET id = lower(hex(randomblob(8)))")
    connection.execute("DELETE FROM sqlite_sequence WHERE name IN ('contexts', 'loads')")
    query = "INSERT INTO sqlite_sequence (name, seq) VALUES ('contexts', :at), ('loads', :at)"
    connection.execute(query, {"at": time.time_ns() // 1000})


def _is_sound(path: Path) -> bool:
    """Whether a file is a catalogue of today's schema, or can be taken to it."""
    try:
        with translated(path), closing(existing(path)) as connection:
            migrate(connection, path, may_be_new=False)
            check(connection, path)
    except DataLoss:
        return False
    return True


def _move_catalogue_aside(damaged: Path, paths: StorePaths) -> Path:
    """Where the damaged file stands from now on, with what SQLite keeps beside it."""
    make_folder(paths.damaged)
    aside = (
        paths.damaged
        / f"{damaged.stem}{time.strftime('-%Y%m%dT%H%M%SZ', time.gmtime())}-{time.time_ns() % 10**9}.sqlite"
    )
    for suffix in ("-wal", "-shm", "-journal", ""):
        file = damaged.with_name(damaged.name + suffix)
        if file.exists():
            file.replace(aside.with_name(aside.name + suffix))
    return aside
