"""A store repaired (``symd store repair``), tidied (``symd store gc``), copied, or transferred into another one, of
whatever kinds the two are, while daemons use them.

A copy has all that was acknowledged before it began, with labels, aliases and contexts. The catalogue is copied first,
as one snapshot, then the files that it names: in the other order a module that is added meanwhile would have a row and
no file, and a start would drop it. Indexes are not copied; they are made again from the modules.

In a transfer each module comes with its index and its aliases; contexts with their loads come after all modules. What
the target already has is not sent, so an interrupted transfer goes on when it is begun anew. A module is compared with
its digest on the way in.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import BinaryIO, Final

from symd.config import MIB, UNBOUNDED_STORE, Limits
from symd.errors import DataLoss, HashMismatch, InvalidInput, LimitExceeded, ModuleNotFound, SymdError
from symd.index import VERSION
from symd.index.lookup import Index
from symd.model.contexts import Alias, ContextRecord
from symd.model.identities import Digest
from symd.model.summaries import ModuleRecord
from symd.store import ModuleStore
from symd.store.catalogue import existing, translated
from symd.store.catalogued import OLDEST
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


PIECE: Final = MIB
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


PAGE: Final = 500
"""Modules, aliases, contexts or loads that are looked at together."""
AT_A_TIME: Final = 4
"""Modules that are copied at a time; most of the time is spent waiting for the stores."""


@dataclass(slots=True)
class Transferred:
    """What was transferred; ``there`` counts modules that the target had already, ``damaged`` are modules that were
    left out because their bytes do not have their digest."""

    modules: int = 0
    module_bytes: int = 0
    there: int = 0
    indexes: int = 0
    aliases: int = 0
    contexts: int = 0
    damaged: list[Digest] = field(default_factory=list)


def transfer(source: ModuleStore, target: ModuleStore, progress: Progress | None = None) -> Transferred:
    """Copy everything of ``source`` into ``target``; ``progress`` counts the bytes of modules. Raises what either
    raises, ``StoreUnavailable`` above all; what was copied until then stays, and another call goes on from there.

    Times are not copied: in ``target`` a module was added, and used last, when it came."""
    running = _Transfer(source, target, progress)
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        for page in _pages(source):
            missing = set(target.missing([record.sha256 for record in page]))
            for _ in pool.map(lambda record: running.module(record, new=record.sha256 in missing), page):  # noqa: B023
                pass
    for context in _contexts(source):
        running.context(context)
    return running.done


class _Transfer:
    """One transfer; safe to use from several threads."""

    def __init__(self, source: ModuleStore, target: ModuleStore, progress: Progress | None) -> None:
        self._source = source
        self._target = target
        self._progress = progress
        self._total = source.figures().module_bytes
        self._seen = 0
        self._lock = Lock()
        self.done = Transferred()

    def module(self, record: ModuleRecord, *, new: bool) -> None:
        """Copy a module, unless it is there, and its index and aliases. One that is gone was removed meanwhile."""
        with suppress(ModuleNotFound):
            if not new or self._copy_bytes(record):
                if new:
                    self._copy_index(record.sha256)
                self._copy_aliases(record.sha256)
                self._count(record.size, new=new)

    def context(self, record: ContextRecord) -> None:
        """Copy a context and its loads."""
        name = self._target.context_log.add(record.context)
        after = 0
        while page := self._source.context_log.loads(record.id, after, PAGE):
            self._target.context_log.record(name, [load for _, load in page])
            after = page[-1][0]
        with self._lock:
            self.done.contexts += 1

    def _copy_bytes(self, record: ModuleRecord) -> bool:
        """Copy a module's bytes. Returns whether they have its digest."""
        try:
            data = self._source.data(record.sha256)
            with self._target.writer() as upload:
                for start in range(0, data.nbytes, PIECE):
                    upload.write(data[start : start + PIECE])
                upload.commit(record.sha256, record.label)
        except (DataLoss, HashMismatch):
            with self._lock:
                self.done.damaged.append(record.sha256)
            return False
        if record.format:  # else it is being indexed at this moment
            self._target.admit(record.sha256, record.format)
        return True

    def _copy_index(self, digest: Digest) -> None:
        """Copy a module's index, if there is one of this format and it is sound; else it is made again."""
        stored = self._source.index(digest, VERSION)
        if stored is None:
            return
        try:
            Index.open_checked(stored, digest)
        except DataLoss:
            return
        with suppress(LimitExceeded):  # the store has no room for it
            if self._target.put_index(digest, VERSION, stored) is not None:
                with self._lock:
                    self.done.indexes += 1

    def _copy_aliases(self, digest: Digest) -> None:
        last: Alias | None = None
        while page := self._source.aliases.of(digest, last, PAGE):
            self._target.aliases.add(page)
            last = page[-1]
            with self._lock:
                self.done.aliases += len(page)

    def _count(self, size: int, *, new: bool) -> None:
        with self._lock:
            self._seen += size
            if new:
                self.done.modules += 1
                self.done.module_bytes += size
            else:
                self.done.there += 1
            if self._progress is not None:
                self._progress(self._seen, self._total)


def _pages(store: ModuleStore) -> Iterator[Sequence[ModuleRecord]]:
    last = OLDEST
    while page := store.records(last, PAGE):
        yield page
        last = (page[-1].create_time, page[-1].sha256)


def _contexts(store: ModuleStore) -> Iterator[ContextRecord]:
    last = ""
    while page := store.context_log.contexts(last, PAGE):
        yield from page
        last = page[-1].id
