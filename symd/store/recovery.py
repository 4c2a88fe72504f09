"""What a start does after a kill: removes leftovers and makes files and catalogue agree again. Whatever else is in
the folder, a start goes on: what symd cannot use is moved to ``damaged/``, and what it does not know is left alone.

Other processes may be at work in the same store, so each change is made under the writers' turn and looks again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

from symd.config import Limits
from symd.model.identities import Digest, is_digest
from symd.model.summaries import ModuleRecord
from symd.model.texts import counted
from symd.store import rows
from symd.store.catalogue import Catalogue, newest
from symd.store.connection import Connection
from symd.store.files import NOT_MADE, disk, is_hollow, make_folder, set_aside, sha256_of, size_of, sync_folder
from symd.store.folder import StorePaths, Tree, check_links, check_no_others, look
from symd.store.removed_files import all_in_place, put_in_place, sweep_leftovers, waiting_modules
from symd.system.messages import os_error_text

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
