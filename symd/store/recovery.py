"""What a start does after a kill: removes leftovers and makes files and catalogue agree again. Whatever else is in
the folder, a start goes on: what symd cannot use is moved to ``damaged/``, and what it does not know is left alone.

Other processes may be at work in the same store, so each change is made under the writers' turn and looks again.

What is wrong with a catalogue is what SQLite says of its pages, and whether its tables, indexes and triggers are those
that symd made. Values that symd did not write are found when they are read (``store.connection``), but for the few on
which every write depends. A damaged catalogue is set aside in ``damaged/``, and the last good copy of it takes its
place, or an empty one where there is none. Modules that it does not have then are found by their files; what else was
told since the copy is lost.

The new one has a file name of its own (``catalogue-2.sqlite`` after ``catalogue.sqlite``), because SQLite forbids to
put another file in the place of one that some process has open. Writers hold ``catalogue.lock`` shared and look for a
newer file before each transaction, so that nothing is written to one that was replaced.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, count
from pathlib import Path
from typing import Final

from symd.config import Limits
from symd.errors import DataLoss
from symd.model.identities import Digest, is_digest
from symd.model.summaries import ModuleRecord
from symd.model.texts import counted
from symd.store import rows
from symd.store.budgets import moment
from symd.store.catalogue import (
    LOCK,
    MIGRATIONS,
    Catalogue,
    copy_of_catalogue,
    damage,
    existing,
    migrate,
    newest,
    replaced,
    successor,
    translated,
)
from symd.store.connection import Connection
from symd.store.files import (
    NOT_MADE,
    IncomingFile,
    disk,
    is_hollow,
    locked,
    make_folder,
    set_aside,
    sha256_of,
    size_of,
    sync_folder,
)
from symd.store.folder import StorePaths, Tree, check_links, check_no_others, look
from symd.store.removed_files import all_in_place, put_in_place, sweep_leftovers, waiting_modules
from symd.system.messages import os_error_text
from symd.system.private_files import new_file

log = logging.getLogger("symd.store")

_NAMED = 5
"""The most files with unknown names that are named in the log."""
_WITHOUT_WRONG_TEXTS = """
    UPDATE modules SET format = iif(typeof(format) = 'text', format, ''), label = iif(typeof(label) = 'text', label, '') WHERE sha256 = ?
"""


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
    """Make the folders of a store that are not there, and move away what is in the place of something else; what is
    there then. Raises ``FailedPrecondition`` where the folder is used for something else or links lead out of it, and
    OSError; none where no folder can be made and there is a catalogue, which can be read."""
    check_no_others(paths)
    with disk(paths.root, NOT_MADE):
        make_folder(paths.root, durable=durable)
    check_links(paths)
    tree = look(paths)
    if put_right(tree, paths):
        tree = look(paths)
    if tree.unknown:
        names = ", ".join(ascii(str(path.relative_to(paths.root)))[1:-1] for path in tree.unknown[:_NAMED])
        more = "; symd store check names all" if len(tree.unknown) > _NAMED else ""
        log.info(
            "%d things in %s are none of the store's and left alone: %s%s", len(tree.unknown), paths.root, names, more
        )
    try:
        paths.create(durable=durable)
    except OSError as error:
        if not size_of(newest(paths.root)):
            raise
        log.error("%s: folders of the store cannot be made: %s", paths.root, os_error_text(error))  # noqa: TRY400 - it says all
    return tree


def put_right(tree: Tree, paths: StorePaths) -> bool:
    """Make what is misplaced readable, or move it to ``damaged/``; whether there was anything. What refuses that is
    told and stays."""
    for path, problem, mode in tree.misplaced:
        below = path.relative_to(paths.root)
        try:
            if mode is not None:
                path.chmod(mode)
                log.warning("%a %s: it has the mode %04o now", str(path), problem, mode)
            else:
                name = path.name if is_digest(path.name) else "-".join(below.parts)
                log.warning("%a %s: it is %a now", str(path), problem, str(set_aside(path, paths.damaged, name)))
        except FileNotFoundError:
            continue
        except OSError as error:
            log.error("%a %s, and stays where it is: %s", str(path), problem, os_error_text(error))  # noqa: TRY400 - it says all
    return bool(tree.misplaced)


def recover(paths: StorePaths, catalogue: Catalogue, limits: Limits, tree: Tree) -> Recovery:
    """Remove leftovers, put back what an unfinished removal took away, drop rows without a file, remove indexes of
    nothing, forget attempts to index what is gone, and name the files that have no right row: to hash them may take
    long, which is ``adopt``'s part. A row whose file was set aside as damaged stays, or is in a folder that cannot
    be listed. ``tree`` is what was there before the catalogue was opened. What has to wait for a removal that has not
    ended is left, and ``catalogue.is_recovered`` is False then."""
    leftovers = sweep_leftovers(paths.incoming, catalogue.has)
    if leftovers is None:
        catalogue.is_recovered = False
    if _put_back(paths, catalogue):
        tree = look(paths)
    waiting = {digest for digest, _ in waiting_modules(paths.incoming)}
    known = catalogue.all_sizes()
    uncatalogued = {digest for digest, size in tree.modules.items() if known.get(digest) != size}
    gone = known.keys() - tree.modules.keys() - paths.all_damaged() - waiting
    dropped = _drop_rows(
        paths, catalogue, {digest for digest in gone if not _is_unreadable(paths.module(digest), tree)}
    )
    _reconcile_indexes(paths, catalogue, limits, tree, uncatalogued, known.keys() - gone)
    with catalogue.writing(survives_power_cut=False) as connection:
        rows.forget_attempts_of_nothing(connection)
    return Recovery(leftovers or 0, dropped, uncatalogued=tuple(sorted(uncatalogued)))


def adopt(
    paths: StorePaths,
    catalogue: Catalogue,
    limits: Limits,
    found: Recovery,
    stop: Callable[[], bool] = lambda: False,
) -> Recovery:
    """Give the files without a right row theirs, after hashing them, until there are none or ``stop`` says so."""
    damaged, left = list(found.damaged), list(found.uncatalogued)
    while left and not stop():
        digest = left.pop(0)
        if not _adopt(paths, catalogue, limits, digest):
            damaged.append(digest)
    added = len(found.uncatalogued) - len(left) - len(damaged) + len(found.damaged)
    if added:
        log.info("%s added to the catalogue by their files, without labels and aliases", counted(added, "module"))
    _reconcile_indexes(paths, catalogue, limits, look(paths), set(left), catalogue.digests())
    return replace(found, damaged=tuple(damaged), uncatalogued=tuple(left))


def add_row(connection: Connection, record: ModuleRecord) -> None:
    """Add a module's row, or mend the one that is there (``rows.insert``); of texts that are none nothing is kept."""
    connection.execute(_WITHOUT_WRONG_TEXTS, (record.sha256,))
    rows.insert(connection, record)


def _adopt(paths: StorePaths, catalogue: Catalogue, limits: Limits, digest: Digest) -> bool:
    """Give a file its row; False when its bytes are not what its name says and it was moved away."""
    path = paths.module(digest)
    try:
        looked_at = path.lstat().st_ino
        whole = not is_hollow(path, limits.module_size) and sha256_of(path) == digest
        with catalogue.writing(survives_power_cut=False) as connection:
            if whole:
                status = path.lstat()
                add_row(connection, ModuleRecord(digest, status.st_size, "", "", max(status.st_mtime, 0.0)))
            elif path.lstat().st_ino == looked_at:
                aside = set_aside(path, paths.damaged, digest)
                log.error("%s had other bytes than the module; it is %s now", path, aside)
            else:
                return True  # it was added again meanwhile
    except FileNotFoundError:
        return True
    except PermissionError as error:
        log.error("%s cannot be read: %s", path, os_error_text(error))  # noqa: TRY400 - it says all
        return True
    return whole


def _put_back(paths: StorePaths, catalogue: Catalogue) -> bool:
    """Put the files of modules back that a removal took away, which was refused or whose process was killed: the
    catalogue has them still. Whether there were any. What the disk refuses is tried again later."""
    if not waiting_modules(paths.incoming):
        return False
    with catalogue.writing(survives_power_cut=False) as connection:
        if not _all_in_place(paths, catalogue):
            return False
        for digest, aside in waiting_modules(paths.incoming):
            path = paths.module(digest)
            try:
                if not rows.exists(connection, digest):
                    aside.unlink(missing_ok=True)
                elif put_in_place(aside, path):
                    log.warning("%s is back in its place: its removal was not finished", path)
                    sync_folder(path.parent)
            except OSError as error:
                log.error("%s cannot be put back: %s", path, os_error_text(error))  # noqa: TRY400 - it says all
                catalogue.is_recovered = False
    return True


def _drop_rows(paths: StorePaths, catalogue: Catalogue, digests: set[Digest]) -> int:
    if not digests:
        return 0
    with catalogue.writing() as connection:
        if not _all_in_place(paths, catalogue):
            return 0
        waiting = {digest for digest, _ in waiting_modules(paths.incoming)}
        gone = [digest for digest in digests - waiting if size_of(paths.module(digest)) is None]
        rows.delete(connection, gone)
    return len(gone)


def _reconcile_indexes(
    paths: StorePaths,
    catalogue: Catalogue,
    limits: Limits,
    tree: Tree,
    uncatalogued: set[Digest],
    known: Collection[Digest],
) -> None:
    """Remove index files of modules that are not there, and note in the catalogue those that are; those of
    ``uncatalogued`` wait. ``known`` are the modules that have a row, or some of them: of others it is asked."""
    noted = catalogue.index_sizes()
    files = (
        {key: size for key, size in tree.indexes.items() if key[0] not in uncatalogued}
        if uncatalogued
        else tree.indexes
    )
    if files == noted and all(digest in known for digest, _ in files):
        return
    with catalogue.writing() as connection:
        if not _all_in_place(paths, catalogue):
            return
        for digest, version in sorted(key for key, size in files.items() if noted.get(key) != size):
            path = paths.index(digest, version)
            size = size_of(path)
            if size is not None and (is_hollow(path, limits.index_size) or not rows.exists(connection, digest)):
                path.unlink(missing_ok=True)
            elif size is not None:
                rows.keep_index(connection, digest, version, size)
        missing = [
            key for key in noted if not _is_unreadable(path := paths.index(*key), tree) and size_of(path) is None
        ]
        rows.forget_indexes(connection, missing)


def _all_in_place(paths: StorePaths, catalogue: Catalogue) -> bool:
    """Within a transaction, whether what has no file is there no more; else it is looked at later."""
    if all_in_place(paths.incoming):
        return True
    catalogue.is_recovered = False
    return False


def _is_unreadable(path: Path, tree: Tree) -> bool:
    """Whether nobody can look if it is there."""
    return not tree.unreadable.isdisjoint(path.parents)


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
