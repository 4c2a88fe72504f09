"""A store repaired (``symd store repair``), tidied (``symd store gc``) or copied while daemons use it.

A copy has all that was acknowledged before it began, with labels, aliases and contexts. The catalogue is copied first,
as one snapshot, then the files that it names: in the other order a module that is added meanwhile would have a row and
no file, and a start would drop it. Indexes are not copied; they are made again from the modules.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from symd.config import UNBOUNDED_STORE, Limits
from symd.errors import InvalidInput, SymdError
from symd.index.file_header import VERSION
from symd.model.identities import Digest
from symd.store.catalogue import catalogue_error, copy_in_any_case, existing, newest, opens_in_place, translated
from symd.store.files import disk, disk_error, make_folder, open_file, remove, sync_folder
from symd.store.folder import StorePaths, check_owner, look
from symd.store.inspection import FindingKind, Progress, StoreFinding, inspect
from symd.store.recovery import replace_catalogue
from symd.store.removed_files import sweep_leftovers
from symd.store.store import Store
from symd.system.private_files import make_temporary_folder, new_file

_OPENING: Final = 256 << 10
"""Free bytes with which a catalogue can be opened, and rows removed."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """What was wrong before and what still is; what to tell of a catalogue that was replaced, "" where none was."""

    before: Sequence[StoreFinding]
    after: Sequence[StoreFinding]
    rebuilt: str


@dataclass(frozen=True, slots=True)
class Collected:
    """What was removed: files that dead writers left, indexes of older formats, modules beyond ``Limits.store_size``,
    and files that had been set aside because they were damaged."""

    leftovers: int
    indexes: Sequence[tuple[Digest, int]]
    modules: Sequence[Digest]
    damaged: Sequence[str]


def repair(root: Path, limits: Limits, progress: Progress | None = None) -> Repaired:
    """Mend what can be mended. Raises as ``inspect`` and ``Store`` do, and FailedPrecondition to root in another's
    store."""
    with disk(root):
        check_owner(root)
    paths, before, rebuilt = StorePaths(root), inspect(root, limits, progress).findings, ""
    faults = [finding.problem for finding in before if finding.kind is FindingKind.CATALOGUE]
    if faults:
        rebuilt = replace_catalogue(paths, newest(root), faults[0])
    unbounded = limits._replace(store_size=UNBOUNDED_STORE)  # what is mended makes nothing else go
    with Store(root, unbounded, adopt_later=True) as store:  # which would log what is told as a finding
        store.check_writable()
        for finding in before:
            if finding.kind is FindingKind.MODULE:
                store.set_aside(Path(finding.subject).name)
        store.adopt()
        for finding in before:
            if finding.kind is FindingKind.INDEX:
                _, version, _, name = Path(finding.subject).parts
                store.drop_index(name.removesuffix(".idx"), int(version))
    return Repaired(before, inspect(root, limits, progress).findings, rebuilt)


def collect(root: Path, limits: Limits, *, damaged: bool = False) -> Collected:
    """Remove what nobody needs; ``damaged``: also what was set aside. Raises as ``repair`` does."""
    paths = StorePaths(root)
    with disk(root):
        check_owner(root)
        paths.check_store()
        swept, first = _make_room(paths)
    with Store(root, limits) as store:
        evicted = store.collect(VERSION)
        leftovers = swept + store.recovery.leftovers
    gone = []
    with disk(paths.damaged):
        for path in sorted(paths.damaged.glob("*")) if damaged else ():
            remove(path)
            gone.append(path.name)
    return Collected(leftovers, [*first, *evicted.indexes], evicted.modules, gone)


def _make_room(paths: StorePaths) -> tuple[int, Sequence[tuple[Digest, int]]]:
    """Free room on a full disk, where the catalogue cannot even be opened: leftovers, and then indexes, those of older
    formats and the largest first, until it can. How many leftovers went, and which indexes. A start notes which are
    gone; they are made again when they are needed. Raises OSError."""
    if _free(paths) >= _OPENING:
        return 0, ()
    swept = (sweep_leftovers(paths.incoming, lambda _digest: True) or 0) if paths.incoming.is_dir() else 0
    gone = []
    sizes = look(paths).indexes
    for digest, version in sorted(sizes, key=lambda each: (each[1] == VERSION, -sizes[each])):
        if _free(paths) >= _OPENING:
            break
        paths.index(digest, version).unlink(missing_ok=True)
        gone.append((digest, version))
    return swept, gone


def _free(paths: StorePaths) -> int:
    return shutil.disk_usage(paths.root).free


PIECE: Final = 1 << 20
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What the system says to who writes, and never to who reads."""
_OF_WRITING: Final = (
    "SQLITE_FULL",
    "SQLITE_READONLY",
    "SQLITE_IOERR_WRITE",
    "SQLITE_IOERR_FSYNC",
    "SQLITE_IOERR_TRUNCATE",
)
_UNBOUNDED: Final = Limits(store_size=UNBOUNDED_STORE)
"""A copy holds what the store holds, whatever the store's daemons are told."""


@dataclass(slots=True)
class Copied:
    """What a copy holds; ``damaged`` are the modules that are not in it, because their files had other bytes than their
    names say."""

    modules: int = 0
    module_bytes: int = 0
    damaged: list[Digest] = field(default_factory=list)


def copy(root: Path, target: Path) -> Copied:
    """Copy the store in the folder ``root`` to the folder ``target``, which must not be there or be empty.

    Raises ``InvalidInput`` where there is no store, or something at ``target``; ``FailedPrecondition`` for another
    user's store, ``DataLoss`` for a damaged catalogue and ``StoreUnavailable``."""
    source = StorePaths(root)
    with disk(root):
        check_owner(root)
        source.check_store()
    with disk(target):
        _check_target(root, target)
        partial = make_temporary_folder(target.parent, f".{target.name[:100]}.symd-copy-")
        try:
            done = _copied(source, partial.path)
            partial.path.replace(target)
            sync_folder(target.parent)
        except SymdError as error:  # the folder that it names goes now
            error.where = error.where.replace(str(partial.path), str(target))
            raise
        finally:
            partial.remove()  # it is gone where it has become the copy
    return done


def _check_target(root: Path, target: Path) -> None:
    if target.is_symlink() or (target.exists() and not (target.is_dir() and not any(target.iterdir()))):
        raise InvalidInput("there is something already", where=str(target), hint="give a folder that is not there")
    if target.resolve().is_relative_to(root.resolve()):
        raise InvalidInput("the copy would lie in the store", where=str(target), hint="give a folder outside of it")


def _copied(source: StorePaths, folder: Path) -> Copied:
    """Copy into a folder that nobody takes for a store before it is whole."""
    copied, done = StorePaths(folder), Copied()
    copied.create(durable=True)
    with disk(source.root):
        catalogue = newest(source.root)
    for digest in _copy_catalogue(catalogue, folder / "catalogue.sqlite"):
        _copy_module(source.module(digest), copied.module(digest), digest, done)
    with Store(folder, _UNBOUNDED) as store:  # rows of modules that were removed meanwhile, and of indexes, are dropped
        store.module_log.renew_id()
    return done


def _copy_catalogue(path: Path, target: Path) -> list[Digest]:
    """The digests of the modules in the snapshot."""
    os.close(new_file(target))
    if path.exists() and not opens_in_place(path):
        try:
            copy_in_any_case(path, target)
        except OSError as error:
            raise disk_error(target if error.errno in _NO_ROOM else path, error) from error
    else:
        with (
            translated(target),
            closing(existing(target)) as after,
            translated(path),
            closing(existing(path)) as before,
        ):
            _back_up(before, after, target)
    with translated(target), closing(existing(target)) as after:
        return [Digest(digest) for (digest,) in after.execute("SELECT sha256 FROM modules ORDER BY sha256")]


def _back_up(before: sqlite3.Connection, after: sqlite3.Connection, target: Path) -> None:
    """SQLite says of neither connection whose error it is: what can only befall who writes is of ``target``."""
    try:
        before.backup(after)  # in one step: one that pauses begins again whenever somebody writes
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorname", "").startswith(_OF_WRITING):
            raise catalogue_error(target, error) from error
        raise


def _copy_module(path: Path, target: Path, digest: Digest, done: Copied) -> None:
    """Copy a module's file and check it on the way. One that is gone was removed meanwhile."""
    source = _opened(path)
    if source is None:
        return
    make_folder(target.parent)
    digester, size = hashlib.sha256(), 0
    with source, os.fdopen(new_file(target), "wb") as into:
        for piece in _pieces(source, path):
            digester.update(piece)
            size += into.write(piece)
        into.flush()
        os.fsync(into.fileno())
    if digester.hexdigest() != digest:
        target.unlink()
        done.damaged.append(digest)
        return
    done.modules += 1
    done.module_bytes += size


def _opened(path: Path) -> BinaryIO | None:
    """A file opened to be copied; None where there is none. Raises ``StoreUnavailable`` that names it: other refusals
    are of the disk that the copy goes to."""
    with disk(path):
        try:
            return os.fdopen(open_file(path), "rb")
        except FileNotFoundError:
            return None


def _pieces(source: BinaryIO, path: Path) -> Iterator[bytes]:
    """What is in a file; raises as ``_opened``."""
    while True:
        with disk(path):
            piece = source.read(PIECE)
        if not piece:
            return
        yield piece
