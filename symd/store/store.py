"""The store: one class that keeps files and catalogue in step."""

from __future__ import annotations

import errno
import logging
import os
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

from symd.config import Limits
from symd.errors import DataLoss, DeadlineExceeded, LimitExceeded, ModuleNotFound, StoreUnavailable, SymdError
from symd.model.identities import Digest, checked_digest
from symd.model.summaries import ModuleRecord
from symd.model.texts import counted
from symd.store import rows
from symd.store.budgets import (
    NOTHING,
    Evicted,
    RemoveFile,
    bytes_of_index,
    bytes_of_module,
    make_room,
    remove_indexes,
    remove_modules,
    unlink,
)
from symd.store.catalogue import Catalogue, is_locked, newest
from symd.store.catalogued import Attempt, Figures, ModuleStore
from symd.store.connection import Connection
from symd.store.files import (
    LOCK_SECONDS,
    IncomingFile,
    disk,
    is_hollow,
    mapped,
    remove,
    set_aside,
    sha256_of,
    size_of,
    turn,
)
from symd.store.folder import StorePaths, check_private
from symd.store.housekeeping import FolderWritability, Housekeeping
from symd.store.recovery import Recovery, add_row, adopt, check, finish_replacing, prepared, recover, replace_catalogue
from symd.store.removed_files import RemovedFiles, removing, sweep_leftovers
from symd.system.private_files import make_temporary_folder, temp_dir

log = logging.getLogger("symd.store")

_UNDOING: Final = 128 << 10
"""Bytes that are kept free when a module is taken in: for SQLite's log of a transaction that takes it out again, and
its file of shared memory."""
_NOTING_SECONDS: Final = 1.0
"""How long a question that makes an index waits for the catalogue's lock, to count that and to keep the index."""
_FIRST_TOGETHER: Final = 8
"""Modules that go in the first transaction of those which empty a store: the log of writes to a disk that is nearly
full has room for few."""


class Store(ModuleStore):
    """Modules by digest in the folder ``root``, made when it is not there.

    Safe to use from several threads, and several processes may share a folder; connections do not survive ``fork``.
    ``durable`` off gives up safety against power cuts for speed. Every method raises ``StoreUnavailable`` when the
    disk refuses, ``BadQuery`` for an invalid digest, and ``DataLoss`` when the catalogue cannot be read.

    A file without a row is hashed and given one as the store is opened; with ``adopt_later`` not before ``adopt`` is
    called.
    """

    def __init__(
        self, root: Path, limits: Limits | None = None, *, durable: bool = True, adopt_later: bool = False
    ) -> None:
        self._limits = limits or Limits()
        self._durable = durable
        self._paths = StorePaths(root)
        self._incoming_folder = self._paths.incoming
        with disk(root):
            check_private(root)
            self._tree = prepared(self._paths, durable=durable)
        self._catalogue, self.recovery = self._open_or_replace_catalogue()
        if not adopt_later:
            self.adopt()
        self._make_parts()
        self._uncounted: set[str] = set()
        """The modules of attempts that are under way and could not be counted."""
        self.writability = FolderWritability(self._paths, self._limits, of_catalogue=self._catalogue.problem)
        self._catalogue.on_refusal = self.writability.note_refusal
        if (error := self._catalogue.unwritable) is not None:
            self.writability.note_refusal(error)
        self._housekeeping: Housekeeping | None = None
        if durable:
            self._keep_house()

    @classmethod
    def temporary(cls, limits: Limits | None = None) -> Store:
        """A store of its own for one run, removed at ``close``, collection or a normal end of the process; by the next
        one where the process is killed."""
        place = temp_dir()
        with disk(place):
            folder = make_temporary_folder(place, "symd-store-")
        try:
            store = cls(folder.path, limits, durable=False)
        except BaseException:
            folder.remove()
            raise
        store._remove = weakref.finalize(store, folder.remove)
        return store

    _catalogue: Catalogue
    writability: FolderWritability
    _remove: Callable[[], object] | None = None

    @property
    def root(self) -> Path:
        return self._paths.root

    def _open_or_replace_catalogue(self) -> tuple[Catalogue, Recovery]:
        """The catalogue, in step with the files, and what was mended for that. One that is damaged is replaced; two in
        a row are not believed."""
        try:
            return self._bring_in_step(self._open_checked())
        except DataLoss as error:
            wrong = error.metadata["fault"]
        with disk(self.root):
            damaged = newest(self.root)
        try:
            told = replace_catalogue(self._paths, damaged, wrong, durable=self._durable, lock_seconds=LOCK_SECONDS)
        except StoreUnavailable as error:
            error.message = f"the catalogue is damaged ({wrong}), and cannot be replaced: {error.message}"
            raise
        if told:
            log.error("%s", told)
        return self._bring_in_step(self._open_checked())

    def _open_checked(self) -> Catalogue:
        """The catalogue, when it has been looked through. Raises ``DataLoss``."""
        is_new = not self._tree.modules
        catalogue = Catalogue(self.root, durable=self._durable, lock_seconds=LOCK_SECONDS, may_be_new=is_new)
        try:
            with catalogue.reading() as connection:
                check(connection, catalogue.path)
        except BaseException:
            catalogue.close()
            raise
        return catalogue

    def _bring_in_step(self, catalogue: Catalogue) -> tuple[Catalogue, Recovery]:
        with disk(self.root):
            leftovers = 0
            if not catalogue.is_recovered:
                leftovers = self._sweep(catalogue)
                catalogue.renew()  # what was left may have been the room that lacked
                if catalogue.unwritable is not None:
                    return catalogue, Recovery(leftovers)
            finish_replacing(self._paths, LOCK_SECONDS)
            catalogue.is_recovered = True
            recovery = recover(self._paths, catalogue, self._limits, self._tree)
            if not catalogue.is_recovered:
                log.warning(
                    "the files of a refused removal are not all back in %s: what was left there is mended when they are",
                    self.root,
                )
            return catalogue, replace(recovery, leftovers=leftovers + recovery.leftovers)

    def check_writable(self) -> None:
        """Raises ``StoreUnavailable`` where a copy of the catalogue is read because nothing can be written."""
        error = self._catalogue.unwritable
        if error is not None:
            raise error

    def _sweep(self, catalogue: Catalogue) -> int:
        """How many files that dead writers left are gone. Where nothing can be written they stay. Raises OSError."""
        try:
            return sweep_leftovers(self._paths.incoming, catalogue.has) or 0
        except OSError:
            if catalogue.unwritable is None:
                raise
            return 0

    def adopt(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Give files without a row theirs, after hashing them, until there are none or ``stop`` says so."""
        if self.recovery.uncatalogued:
            with disk(self.root):
                self.recovery = adopt(self._paths, self._catalogue, self._limits, self.recovery, stop)

    def _keep_house(self) -> None:
        housekeeping = Housekeeping(
            self._paths, self._catalogue, self._limits, self.usage, self.module_log, self.removals, self.writability
        )
        housekeeping.begin()
        weakref.finalize(self, housekeeping.end)
        self._housekeeping = housekeeping

    def close(self) -> None:
        self.module_log.close()
        if self._housekeeping is not None:
            self._housekeeping.end()
        self._catalogue.close()
        if self._remove is not None:
            self._remove()

    def missing(self, digests: Sequence[str]) -> list[str]:
        checked = [checked_digest(digest) for digest in digests]
        sizes = self._catalogue.sizes(checked)
        missing: list[str] = [digest for digest in checked if not self._whole(digest, sizes.get(digest))]
        for digest in set(checked).difference(missing):
            self.usage.note(digest)  # who asks will count on it
        return missing

    def data(self, digest: str) -> memoryview:
        size = self._size(digest)
        path = self._paths.module(digest)
        with disk(path):
            try:
                view = mapped(path)
            except FileNotFoundError:
                raise self._without_file(digest) from None
        if view.nbytes != size:
            raise _damaged(digest, path, f"the file has {view.nbytes} bytes, the module had {size}")
        self.usage.note(digest)
        return view

    @contextmanager
    def file(self, digest: str) -> Iterator[Path]:
        size = self._size(digest)
        path = self._paths.module(digest)
        with self.usage.pin(digest):
            with disk(path):
                actual = size_of(path)
            if actual is None:
                raise self._without_file(digest)
            if actual != size:
                raise _damaged(digest, path, f"the file has {actual} bytes, the module had {size}")
            yield path

    def set_aside(self, digest: str) -> bool:
        """Move a module's file to ``damaged/`` where its bytes are not those of its digest. Its row, label, aliases and
        indexes stay: it is missing until its bytes are added again, and then everything is as it was. False where the
        bytes are right, or there are none."""
        path = self._paths.module(digest)
        with disk(path):
            try:
                looked_at = path.lstat().st_ino
                if not is_hollow(path, self._limits.module_size) and sha256_of(path) == digest:
                    return False
                with self._catalogue.writing():
                    if path.lstat().st_ino != looked_at:
                        return False  # it was added again meanwhile
                    set_aside(path, self._paths.damaged, digest)
            except FileNotFoundError:
                return False
        return True

    def index(self, digest: str, version: int) -> memoryview | None:
        path = self._paths.index(digest, version)
        with disk(path):
            try:
                view = None if is_hollow(path, self._limits.index_size) else mapped(path)
            except FileNotFoundError:
                return None
        self.usage.note(digest)
        return view

    def keep_index(self, file: IncomingFile, digest: str, version: int, format: str = "") -> bool:  # noqa: A002
        """Where there is no room the index is not kept, and neither where the catalogue's lock is not to be had. It has
        a checksum, and one that a power cut spoils is made again, so that nobody waits for the disk; an admission
        survives it."""
        digest, size, is_first = checked_digest(digest), file.size, False
        seconds = _NOTING_SECONDS if digest in self._uncounted else None
        try:
            with (
                self.writability.noticing(),
                disk(file.path),
                self._adding(
                    digest,
                    lambda connection: bytes_of_index(connection, digest, version, size),
                    survives_power_cut=bool(format),
                    seconds=seconds,
                ) as connection,
            ):
                file.publish(self._paths.index(digest, version), survives_power_cut=False)
                rows.keep_index(connection, digest, version, size)
                is_first = bool(format) and self._admit(connection, digest, format)
        except LimitExceeded:
            self.forget_attempts(digest, version)
            return False
        except StoreUnavailable as error:
            if not is_locked(error):
                raise
            log.warning("the index of %s is not kept: %s", digest, error.message)
            return False
        if is_first:
            self.module_log.notify()
        return True

    def remove(self, digest: str) -> None:
        """Remove a module with its indexes and aliases, as ``ModuleStore.remove`` does. On a full disk, which
        whoever removes modules may want to empty, it is tried twice."""
        self._twice_where_full(partial(super().remove, digest))

    def refuse(self, digest: str, version: int, error: SymdError) -> None:
        """Remove a module that cannot be indexed, as ``ModuleStore.refuse`` does. On a full disk, for which a
        module may be refused, it is tried twice."""
        self._twice_where_full(partial(super().refuse, digest, version, error))

    def _twice_where_full(self, act: Callable[[], None]) -> None:
        """Do something that makes room, where the disk is full once more with the log of writes from its beginning."""
        try:
            act()
        except StoreUnavailable as error:
            if not _is_full(error):
                raise
            self._catalogue.reuse_log()
            act()

    def drop_index(self, digest: str, version: int) -> None:
        with disk(self._paths.root), self._catalogue.writing() as connection:
            remove_indexes(connection, self._paths, [(checked_digest(digest), version)])

    def drop_older_indexes(self, digest: str, version: int) -> None:
        with disk(self._paths.root), self._catalogue.writing() as connection:
            older = rows.older_indexes(connection, checked_digest(digest), version)
            remove_indexes(connection, self._paths, older)

    def collect(self, version: int) -> Evicted:
        """Remove indexes of formats older than ``version`` and what is beyond ``Limits.store_size``; what went. The
        error of a disk that refuses some of it says what went before."""
        with disk(self._paths.root), self._catalogue.writing() as connection:
            older = [key for key in self._catalogue.indexes_within(connection) if key[1] < version]
            remove_indexes(connection, self._paths, older)
        parts = [Evicted(indexes=older)]
        try:
            for part in self._evict_in_turn():
                parts.append(part)
                self._report(part)
        except StoreUnavailable as error:
            with suppress(SymdError):  # what went is room, of which the catalogue has its share
                self._catalogue.compact()
            raise _left_off(error, _together(parts)) from error
        self._catalogue.compact()
        return _together(parts)

    def _evict_in_turn(self) -> Iterator[Evicted]:
        """Remove what is beyond ``Limits.store_size``, by transactions of as many modules as a disk that is nearly full
        has room to log."""
        count = _FIRST_TOGETHER
        while True:
            try:
                part = self._evict(count)
            except StoreUnavailable as error:
                self._note_waiting()  # the rows of indexes that went are back
                if not _is_full(error) or count == 1:
                    raise
                count = max(count // 4, 1)
            else:
                if part == NOTHING:
                    return
                count *= 2
                yield part
            self._catalogue.reuse_log()

    def _evict(self, most: int) -> Evicted:
        """Remove so many modules at most of those that are beyond ``Limits.store_size``. Their indexes go at once, for
        good: they can be made again, and their bytes may be the room that the transaction lacks."""
        with (
            disk(self._paths.root),
            self._removing() as removed,
            self._catalogue.writing() as connection,
        ):
            return make_room(
                connection,
                self._paths,
                self.usage,
                self._limits,
                0,
                remove_file=removed.remove,
                remove_index=unlink,
                most=most,
            )

    @contextmanager
    def attempt(self, digest: str, version: int) -> Iterator[Attempt]:
        name, seconds = f"index-{checked_digest(digest)}", self._limits.build_seconds
        with ExitStack() as stack:
            self._catalogue.check_in_place()
            with disk(self._paths.incoming):
                waited = stack.enter_context(turn(self._paths.incoming, name, seconds, partial(_held, digest, seconds)))
            stack.callback(self._uncounted.discard, digest)
            file = stack.enter_context(self.scratch())
            yield Attempt(*self._count_attempt(checked_digest(digest), version), waited, file)

    def _count_attempt(self, digest: Digest, version: int) -> tuple[int, str]:
        """Count an attempt; how many were counted before, and how the last ended. Where the catalogue's lock is not to
        be had soon it goes on uncounted: a question is not to wait for others' changes."""
        try:
            with self._catalogue.writing(survives_power_cut=False, seconds=_NOTING_SECONDS) as connection:
                return rows.count_attempt(connection, digest, version)
        except StoreUnavailable as error:
            if not is_locked(error):
                raise
            log.warning("an attempt to index %s is not counted: %s", digest, error.message)
        self._uncounted.add(digest)
        with self._catalogue.reading() as connection:
            return rows.attempts(connection, digest, version)

    def figures(self) -> Figures:
        with disk(self.root):
            modules, module_bytes, index_bytes = self._catalogue.sums()
            damaged = sum(1 for _ in self._paths.damaged.glob("*"))
            return Figures(modules, module_bytes, index_bytes, self.writability.free(), damaged)

    def _take_out(self, connection: Connection, digest: Digest, remove_file: RemoveFile) -> None:
        with disk(self._paths.module(digest)):
            remove_modules(connection, self._paths, [digest], remove_file, durable=self._durable)

    def _removing(self) -> AbstractContextManager[RemovedFiles]:
        return removing(self._incoming_folder, self._note_waiting)

    def _note_waiting(self) -> None:
        """Files of a refused transaction are not all in their places: rows and files are brought in step in a while."""
        self._catalogue.is_recovered = False

    def _incoming(self) -> IncomingFile:
        self._catalogue.check_in_place()
        try:
            return IncomingFile(self._paths.incoming, durable=self._durable)
        except FileNotFoundError:  # the folder could not be made
            if (error := self._catalogue.unwritable) is not None:
                raise error from None
            raise

    def _whole(self, digest: Digest, size: int | None) -> bool:
        path = self._paths.module(digest)
        with disk(path):
            is_whole = size is not None and size_of(path) == size
        if not is_whole:
            self._catalogue.check_in_place()
        return is_whole

    def _without_file(self, digest: str) -> ModuleNotFound:
        """The error for a module that has a row and no file. Raises ``StoreUnavailable`` where that is so because the
        folder is away."""
        self._catalogue.check_in_place()
        return self._not_found(digest)

    def _accept(self, file: IncomingFile, digest: Digest, size: int, label: str, format: str) -> None:  # noqa: A002
        path = self._paths.module(digest)
        with disk(path):
            self._check_room_to_undo()
        try:
            with (
                disk(path),
                self._adding(digest, lambda connection: bytes_of_module(connection, digest, size)) as connection,
            ):
                file.publish(path)
                for aside in self._paths.asides(digest):
                    remove(aside)
                add_row(connection, ModuleRecord(digest, size, format, label, time.time()))
        except SymdError:
            self._withdraw(digest)
            raise
        self.usage.note(digest)

    def _check_room_to_undo(self) -> None:
        """A module that cannot be indexed is taken out again, and on a full disk that may need more room than it took
        to come. Raises OSError where there is none."""
        self._catalogue.check_in_place()
        if self.writability.free() < _UNDOING:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _withdraw(self, digest: Digest) -> None:
        """Remove a file whose row was refused; where even that fails the next start adopts it."""
        with suppress(SymdError, OSError), self._catalogue.writing() as connection:
            if not rows.exists(connection, digest):
                self._paths.module(digest).unlink(missing_ok=True)

    @contextmanager
    def _adding(
        self,
        digest: Digest,
        needed: Callable[[Connection], int],
        *,
        survives_power_cut: bool = True,
        seconds: float | None = None,
    ) -> Iterator[Connection]:
        """A transaction that adds ``needed`` bytes for a module, with room for them. Raises ``LimitExceeded`` where
        there can be none."""
        with (
            self._removing() as removed,
            self._catalogue.writing(survives_power_cut=survives_power_cut, seconds=seconds) as connection,
        ):
            evicted = make_room(
                connection,
                self._paths,
                self.usage,
                self._limits,
                needed(connection),
                digest,
                remove_file=removed.remove,
            )
            yield connection
        self._report(evicted)


def _together(parts: Sequence[Evicted]) -> Evicted:
    return Evicted(
        list(chain.from_iterable(part.evictions for part in parts)),
        list(chain.from_iterable(part.indexes for part in parts)),
    )


def _left_off(error: StoreUnavailable, gone: Evicted) -> StoreUnavailable:
    """The error of an eviction that was refused when some of it was done."""
    modules, indexes = len(gone.evictions), len(gone.indexes)
    return StoreUnavailable(
        f"{error.message}; removed before: {counted(modules, 'module')} and {counted(indexes, 'index', 'indexes')} of older formats",
        where=error.where,
        hint=error.hint,
        metadata={**error.metadata, "removed_modules": str(modules), "removed_indexes": str(indexes)},
    )


def _is_full(error: StoreUnavailable) -> bool:
    """Whether it is the disk that refuses."""
    return error.metadata.get("sqlite") == "SQLITE_FULL"


def _held(digest: str, seconds: float, holder: str) -> DeadlineExceeded:
    """The error of who waits for another process, which has this number, to index a module."""
    who, pid = (f"process {holder}", {"pid": holder}) if holder else ("another process", {})
    return DeadlineExceeded(
        f"{who} has been indexing the module for more than {seconds:g} s and has not ended",
        where=f"modules/{digest}",
        hint="ask again; where that process stands still, let it go on or end it",
        metadata={"limit": "build_seconds", "value": f"{seconds:g}", **pid},
    )


def _damaged(digest: str, path: Path, what: str) -> DataLoss:
    return DataLoss(
        what,
        where=str(path),
        hint="remove the module and add it again",
        metadata={"module": f"modules/{digest}", "file": str(path)},
    )
