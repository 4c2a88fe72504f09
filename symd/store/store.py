"""The store: one class that keeps files and catalogue in step."""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from symd.config import DEFAULT_LIMITS, Limits
from symd.errors import DataLoss, DeadlineExceeded, LimitExceeded, StoreUnavailable, SymdError
from symd.model.identities import Digest, checked_digest
from symd.model.summaries import ModuleRecord
from symd.store import rows
from symd.store.budgets import Evicted, bytes_of_index, bytes_of_module, make_room, remove_indexes, remove_modules
from symd.store.catalogue import Catalogue, CatalogueToRead, is_locked
from symd.store.catalogued import Attempt, Figures, ModuleStore
from symd.store.files import LOCK_SECONDS, IncomingFile, disk, mapped, move_into, sha256_of, size_of, sweep, turn
from symd.store.folder import StorePaths, check_links, check_private
from symd.store.housekeeping import FolderWritability, Housekeeping
from symd.store.recovery import Recovery, adopt, check, copy_files, prepared, recover, replace_catalogue
from symd.store.rows import Connection
from symd.system.private_files import make_temporary_folder, temp_dir

log = logging.getLogger("symd.store")


class Store(ModuleStore):
    """Modules by digest in the folder ``root``, made when it is not there.

    Safe to use from several threads, and several processes may share a folder; connections do not survive ``fork``.
    ``durable`` off gives up safety against power cuts for speed. Every method raises ``StoreUnavailable`` when the
    disk refuses, ``BadQuery`` for an invalid digest, and ``DataLoss`` when the catalogue cannot be read.

    Where the folder may not be written, or has no room for SQLite's files, the store answers from what is there, and
    refuses writes until it is opened again.

    A file without a row is hashed and given one as the store is opened; with ``adopt_later`` not before ``adopt`` is
    called.
    """

    def __init__(
        self, root: Path, limits: Limits | None = None, *, durable: bool = True, adopt_later: bool = False
    ) -> None:
        self._limits = limits or DEFAULT_LIMITS
        self._durable = durable
        self._paths = StorePaths(root)
        self._incoming_folder = self._paths.incoming
        self._housekeeping: Housekeeping | None = None
        with disk(root):
            check_private(root)
        refusal: StoreUnavailable | None = None
        try:
            with disk(root):
                self._tree = prepared(self._paths, durable=durable)
                leftovers = sweep(self._incoming_folder)  # which may be the room that the catalogue lacks
            self._catalogue, recovery = self._open_or_replace_catalogue()
            self.recovery = replace(recovery, leftovers=leftovers)
        except StoreUnavailable as error:
            if is_locked(error) or not self._paths.catalogue.is_file():
                raise
            refusal = error
            try:
                self._open_to_read(refusal)
            except DataLoss:  # there is nothing whole to read, and no room to put another in its place
                raise refusal from None
        if not adopt_later:
            self.adopt()
        self._make_parts()
        self.writability = FolderWritability(self._paths, self._limits, "" if refusal is None else refusal.message)
        if refusal is not None:
            self.writability.check()  # once and for all: no housekeeping looks again
        elif durable:
            self._keep_house()

    def _open_to_read(self, refusal: StoreUnavailable) -> None:
        """Answer from a copy of the catalogue, as it is: SQLite makes files beside one that it only reads."""
        folder = make_temporary_folder(temp_dir(), "symd-catalogue-")
        self._remove = weakref.finalize(self, folder.remove)
        copy = folder.path / self._paths.catalogue.name
        with disk(self._paths.catalogue):
            check_links(self._paths)
            copy_files(self._paths.catalogue, copy)
        self._catalogue = CatalogueToRead(copy, self.root, refusal)
        with self._catalogue.reading() as connection:
            check(connection, self._paths.catalogue)
        self.recovery = Recovery()
        log.warning("the store is read-only: %s", refusal.message)

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
            return self._open_in_step()
        except DataLoss as error:
            wrong = error.metadata["fault"]
        try:
            told = replace_catalogue(self._paths, wrong, durable=self._durable, lock_seconds=LOCK_SECONDS)
        except StoreUnavailable as error:
            error.message = f"the catalogue is damaged ({wrong}), and cannot be replaced: {error.message}"
            raise
        if told:
            log.error("%s", told)
        return self._open_in_step()

    def _open_in_step(self) -> tuple[Catalogue, Recovery]:
        """The catalogue, when it has been looked through and the files are as it says. Raises ``DataLoss``."""
        is_new = not self._tree.modules
        catalogue = Catalogue(
            self._paths.catalogue, durable=self._durable, lock_seconds=LOCK_SECONDS, may_be_new=is_new
        )
        try:
            with catalogue.reading() as connection:
                check(connection, catalogue.path)
            with disk(self.root):
                return catalogue, recover(self._paths, catalogue, self._tree)
        except BaseException:
            catalogue.close()
            raise

    def check_writable(self) -> None:
        """Raises ``StoreUnavailable`` where nothing can be written."""
        with self._catalogue.writing():
            pass

    def adopt(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Give files without a row theirs, after hashing them, until there are none or ``stop`` says so."""
        if self.recovery.uncatalogued:
            with disk(self.root):
                self.recovery = adopt(self._paths, self._catalogue, self.recovery, stop)

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
                raise self._not_found(digest) from None
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
                raise self._not_found(digest)
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
                if sha256_of(path) == digest:
                    return False
                with self._catalogue.writing():
                    if path.lstat().st_ino != looked_at:
                        return False  # it was added again meanwhile
                    move_into(self._paths.damaged, path, digest)
            except FileNotFoundError:
                return False
        return True

    def index(self, digest: str, version: int) -> memoryview | None:
        path = self._paths.index(digest, version)
        with disk(path):
            try:
                view = mapped(path)
            except FileNotFoundError:
                return None
        self.usage.note(digest)
        return view

    def keep_index(self, file: IncomingFile, digest: str, version: int, format: str = "") -> bool:  # noqa: A002
        """Where there is no room the index is not kept. It has a checksum, and one that a power cut spoils is made
        again, so that nobody waits for the disk; an admission survives it."""
        digest, size, is_first = checked_digest(digest), file.size, False
        try:
            with (
                disk(file.path),
                self._adding(
                    digest,
                    lambda connection: bytes_of_index(connection, digest, version, size),
                    survives_power_cut=bool(format),
                ) as connection,
            ):
                file.publish(self._paths.index(digest, version), survives_power_cut=False)
                rows.keep_index(connection, digest, version, size)
                is_first = bool(format) and self._admit(connection, digest, format)
        except LimitExceeded:
            self.forget_attempts(digest, version)
            return False
        if is_first:
            self.module_log.notify()
        return True

    def drop_index(self, digest: str, version: int) -> None:
        with disk(self._paths.root), self._catalogue.writing() as connection:
            remove_indexes(connection, self._paths, [(checked_digest(digest), version)])

    def drop_older_indexes(self, digest: str, version: int) -> None:
        with disk(self._paths.root), self._catalogue.writing() as connection:
            older = rows.older_indexes(connection, checked_digest(digest), version)
            remove_indexes(connection, self._paths, older)

    def collect(self, version: int) -> Evicted:
        """Remove indexes of formats older than ``version`` and what is beyond ``Limits.store_size``; what went."""
        with disk(self._paths.root), self._catalogue.writing() as connection:
            older = [key for key in self._catalogue.indexes_within(connection) if key[1] < version]
            remove_indexes(connection, self._paths, older)
            evicted = make_room(connection, self._paths, self.usage, self._limits, 0)
        self._report(evicted)
        self._catalogue.compact()
        return replace(evicted, indexes=[*older, *evicted.indexes])

    @contextmanager
    def attempt(self, digest: str, version: int) -> Iterator[Attempt]:
        name, seconds = f"index-{checked_digest(digest)}", self._limits.build_seconds
        with ExitStack() as stack:
            with disk(self._paths.incoming):
                waited = stack.enter_context(turn(self._paths.incoming, name, seconds, partial(_held, digest, seconds)))
            file = stack.enter_context(self.scratch())
            with self._catalogue.writing(survives_power_cut=False) as connection:
                before = rows.count_attempt(connection, checked_digest(digest), version)
            yield Attempt(*before, waited, file)

    def figures(self) -> Figures:
        with disk(self.root):
            modules, module_bytes, index_bytes = self._catalogue.sums()
            damaged = sum(1 for _ in self._paths.damaged.glob("*"))
            return Figures(modules, module_bytes, index_bytes, self.writability.free(), damaged)

    def _take_out(self, connection: Connection, digest: Digest) -> None:
        with disk(self._paths.module(digest)):
            remove_modules(connection, self._paths, [digest], durable=self._durable)

    def _incoming(self) -> IncomingFile:
        return IncomingFile(self._paths.incoming, durable=self._durable)

    def _whole(self, digest: Digest, size: int | None) -> bool:
        path = self._paths.module(digest)
        with disk(path):
            return size is not None and size_of(path) == size

    def _accept(self, file: IncomingFile, digest: Digest, size: int, label: str, format: str) -> None:  # noqa: A002
        path = self._paths.module(digest)
        try:
            with (
                disk(path),
                self._adding(digest, lambda connection: bytes_of_module(connection, digest, size)) as connection,
            ):
                file.publish(path)
                self._paths.damaged_module(digest).unlink(missing_ok=True)
                rows.insert(connection, ModuleRecord(digest, size, format, label, time.time()))
        except SymdError:
            self._withdraw(digest)
            raise
        self.usage.note(digest)

    def _withdraw(self, digest: Digest) -> None:
        """Remove a file whose row was refused; where even that fails the next start adopts it."""
        with suppress(SymdError, OSError), self._catalogue.writing() as connection:
            if not rows.exists(connection, digest):
                self._paths.module(digest).unlink(missing_ok=True)

    @contextmanager
    def _adding(
        self, digest: Digest, needed: Callable[[Connection], int], *, survives_power_cut: bool = True
    ) -> Iterator[Connection]:
        """A transaction that adds ``needed`` bytes for a module, with room for them. What has to go for it goes in a
        transaction before: it is gone, and told, though the addition fails. Raises ``LimitExceeded`` where there can be
        no room."""
        while True:
            with self._catalogue.writing(survives_power_cut=survives_power_cut) as connection:
                evicted = make_room(connection, self._paths, self.usage, self._limits, needed(connection), digest)
                if not evicted:
                    yield connection
                    return
            self._report(evicted)


def _held(digest: str, seconds: float) -> DeadlineExceeded:
    """The error of who waits for another process to index a module."""
    return DeadlineExceeded(
        f"another process has been indexing the module for more than {seconds:g} s and has not ended",
        where=f"modules/{digest}",
        hint="ask again; where that process stands still, let it go on or end it",
        metadata={"limit": "build_seconds", "value": f"{seconds:g}"},
    )


def _damaged(digest: str, path: Path, what: str) -> DataLoss:
    return DataLoss(
        what,
        where=str(path),
        hint="remove the module and add it again",
        metadata={"module": f"modules/{digest}", "file": str(path)},
    )
