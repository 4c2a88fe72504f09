"""A store repaired (``symd store repair``), tidied (``symd store gc``) or copied while daemons use it.

A copy has all that was acknowledged before it began, with labels, aliases and contexts. The catalogue is copied first,
as one snapshot, then the files that it names: in the other order a module that is added meanwhile would have a row and
no file, and a start would drop it. Indexes are not copied; they are made again from the modules.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from symd.config import UNBOUNDED_STORE, Limits
from symd.errors import InvalidInput, SymdError
from symd.index.file_header import VERSION
from symd.model.identities import Digest
from symd.store.catalogue import existing, translated
from symd.store.files import disk, make_folder, open_file, remove, sweep, sync_folder
from symd.store.folder import StorePaths, check_owner
from symd.store.inspection import FindingKind, Progress, StoreFinding, inspect
from symd.store.recovery import copy_of_catalogue, replace_catalogue
from symd.store.store import Store
from symd.system.private_files import make_temporary_folder, new_file


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
    before, rebuilt = inspect(root, progress).findings, ""
    faults = [finding.problem for finding in before if finding.kind is FindingKind.CATALOGUE]
    if faults:
        rebuilt = replace_catalogue(StorePaths(root), faults[0])
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
    return Repaired(before, inspect(root, progress).findings, rebuilt)


def collect(root: Path, limits: Limits, *, damaged: bool = False) -> Collected:
    """Remove what nobody needs; ``damaged``: also what was set aside. Raises as ``repair`` does."""
    paths = StorePaths(root)
    with disk(root):
        check_owner(root)
        paths.check_store()
        swept = sweep(paths.incoming) if paths.incoming.is_dir() else 0  # without them the catalogue may have room
    with Store(root, limits) as store:
        evicted = store.collect(VERSION)
        leftovers = swept + store.recovery.leftovers
    gone = []
    with disk(paths.damaged):
        for path in sorted(paths.damaged.glob("*")) if damaged else ():
            remove(path)
            gone.append(path.name)
    return Collected(leftovers, evicted.indexes, evicted.modules, gone)


PIECE: Final = 1 << 20
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
    for digest in _copy_catalogue(source.catalogue, copied.catalogue):
        _copy_module(source.module(digest), copied.module(digest), digest, done)
    with Store(folder, _UNBOUNDED) as store:  # rows of modules that were removed meanwhile, and of indexes, are dropped
        store.module_log.renew_id()
    return done


def _copy_catalogue(path: Path, target: Path) -> list[Digest]:
    """The digests of the modules in the snapshot."""
    copy_of_catalogue(path, target)
    with translated(target), closing(existing(target)) as after:
        return [Digest(digest) for (digest,) in after.execute("SELECT sha256 FROM modules ORDER BY sha256")]


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
