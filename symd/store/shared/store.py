"""The store that daemons on several machines share: it keeps catalogue, object storage and the files of this machine in
step.

An object is written before its row and removed after it: the names of objects without a row are in the table
``unwanted_objects`` until somebody has removed them, so that a kill forgets none. Whoever writes or removes the objects
of a module holds the module's lock, so that none is removed that was added again.
"""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from symd.config import DEFAULT_LIMITS, Limits
from symd.errors import DataLoss, DeadlineExceeded, LimitExceeded, SymdError
from symd.model.identities import Digest, checked_digest
from symd.model.summaries import ModuleRecord
from symd.store import rows
from symd.store.budgets import Evicted, bytes_of_index, bytes_of_module, chosen, note_evictions
from symd.store.catalogued import Attempt, Figures, ModuleStore
from symd.store.files import NOT_MADE, IncomingFile, disk, make_folder, sweep
from symd.store.folder import digest_of_bytes
from symd.store.rows import Connection
from symd.store.shared.cached_files import CachedFiles
from symd.store.shared.catalogue import PostgresCatalogue
from symd.store.shared.housekeeping import SharedHousekeeping, SharedWritability
from symd.store.shared.object_storage import is_of_module
from symd.store.shared.postgresql import BUILDING, STORING, AdvisoryLocks, HeldLock, PostgresDatabase

log = logging.getLogger("symd.store")

_PAGE: Final = 100


def remove_unwanted(
    catalogue: PostgresCatalogue, files: CachedFiles, locks: AdvisoryLocks, stop: Callable[[], bool] = lambda: False
) -> int:
    """Remove them, here and in the storage, until there are none or ``stop`` says so; how many went. Whoever adds the
    same module holds its lock meanwhile or finds nothing: the row that comes with an object takes its name out of the
    table.

    The table is not believed where it would cost something that is wanted: it may be of a backup, or filled without
    triggers. What a row names stays, and a name that is none of its module's is left alone."""
    removed, last = 0, ""
    while found := catalogue.unwanted_objects(_PAGE, last):
        for name, digest in found:
            if stop():
                return removed
            if is_of_module(name, digest):
                removed += _remove_unwanted(catalogue, files, locks, name, digest)
            else:
                log.warning("unwanted_objects has the name %.200r, which is not an object of module %s", name, digest)
        last = found[-1][0]
    return removed


def _remove_unwanted(
    catalogue: PostgresCatalogue, files: CachedFiles, locks: AdvisoryLocks, name: str, digest: Digest
) -> bool:
    with locks.hold(STORING, digest):
        if not catalogue.is_unwanted(name):
            return False
        is_named = catalogue.is_named(name, digest)
        if not is_named:
            files.remove(name)
        catalogue.forget_unwanted(name)
        return not is_named


SEEN_SECONDS: Final = 2.0
"""Seconds for which an object that was in the storage counts as there for who asks what is missing; who adds one has
it looked for anew."""
_LOST: Final = "UPDATE modules SET damaged = TRUE WHERE sha256 = ?"


def module_object(digest: str) -> str:
    """The name of a module's bytes in the object storage."""
    return f"modules/{digest[:2]}/{checked_digest(digest)}"


def index_object(digest: str, version: int) -> str:
    """The name of an index."""
    return f"index/{version}/{digest[:2]}/{checked_digest(digest)}.idx"


class SharedStore(ModuleStore):
    """Modules by digest, for every daemon that names the same database and object storage; ``ModuleStore`` says what
    each method does. ``incoming`` is a folder of this machine for files being written, which ``files`` may link to.

    Safe to use from several threads. Besides what ``Store`` raises every method raises ``StoreUnavailable`` where the
    database or the storage cannot be reached, within a bounded time.
    """

    _catalogue: PostgresCatalogue
    writability: SharedWritability

    def __init__(
        self,
        server: PostgresDatabase,
        files: CachedFiles,
        incoming: Path,
        limits: Limits | None = None,
        *,
        make: bool = True,
    ) -> None:
        """If not ``make`` a missing catalogue is none (``PostgresCatalogue``)."""
        self._limits = limits or DEFAULT_LIMITS
        self._server = server
        self._files = files
        self._incoming_folder = incoming
        self._catalogue = PostgresCatalogue(server, make=make)
        self._locks = AdvisoryLocks(server)
        with disk(incoming, NOT_MADE):
            make_folder(incoming, durable=False)
        with disk(incoming):
            sweep(incoming)
        self._make_parts()
        self.writability = SharedWritability(incoming, self._limits)
        clean = partial(remove_unwanted, self._catalogue, files, self._locks)
        self._housekeeping = SharedHousekeeping(
            server, self._catalogue, self.usage, self.module_log, self.removals, self.writability, clean
        )
        self._housekeeping.begin()
        weakref.finalize(self, self._housekeeping.end)

    def close(self) -> None:
        self.module_log.close()
        self._housekeeping.end()
        self._locks.close()
        self._catalogue.close()

    def adopt(self, stop: Callable[[], bool] = lambda: False) -> None:
        """An object without a row is nobody's: there is nothing to adopt. What is unwanted goes."""
        remove_unwanted(self._catalogue, self._files, self._locks, stop)

    def missing(self, digests: Sequence[str]) -> list[str]:
        """A module is there where the catalogue has it and the storage has an object of its size: what a machine has in
        its cache does not count, for others cannot have it."""
        return self._missing(digests, SEEN_SECONDS)

    def is_stored(self, digest: str) -> bool:
        return not self._missing([digest], 0.0)

    def _missing(self, digests: Sequence[str], seconds: float) -> list[str]:
        checked = [checked_digest(digest) for digest in digests]
        catalogued = self._catalogue.whole_sizes(sorted(set(checked)))
        stored = self._files.sizes(list(map(module_object, catalogued)), seconds)
        there = {digest for digest, size in catalogued.items() if stored.get(module_object(digest)) == size}
        for digest in there:
            self.usage.note(digest)  # who asks will count on it
        return [digest for digest in checked if digest not in there]

    def data(self, digest: str) -> memoryview:
        size = self._size(digest)
        with self._noting_loss(digest):
            view = self._files.mapped(module_object(digest))
            _check_whole(digest, None if view is None else view.nbytes, size)
        assert view is not None  # noqa: S101 - it was checked
        self.usage.note(digest)
        return view

    @contextmanager
    def file(self, digest: str) -> Iterator[Path]:
        size = self._size(digest)
        with self.usage.pin(digest), ExitStack() as stack:
            with self._noting_loss(digest):
                path = stack.enter_context(self._files.file(module_object(digest)))
                with disk(self._incoming_folder):
                    _check_whole(digest, None if path is None else path.stat().st_size, size)
            assert path is not None  # noqa: S101 - it was checked
            yield path

    @contextmanager
    def _noting_loss(self, digest: str) -> Iterator[None]:
        """A module that is found lost inside is missing from now on, for all daemons, until it is added again."""
        try:
            yield
        except DataLoss:
            self.set_aside(digest)
            raise

    def set_aside(self, digest: str) -> bool:
        """Note that a module's object is gone, or has other bytes than those of its digest when it is fetched anew; it
        is missing until they are added again. False where they are right, which another daemon may have seen to
        meanwhile, or there is no such module."""
        checked = checked_digest(digest)
        with self._locks.hold(STORING, checked):
            if not self._catalogue.sizes([checked]):
                return False
            if self._catalogue.is_noted_damaged(checked):
                return True
            self._files.drop(module_object(checked))
            if self._is_right(checked):
                return False
            with self._catalogue.writing() as connection:
                connection.execute(_LOST, (checked,))
        return True

    def _is_right(self, digest: Digest) -> bool:
        """Whether the storage has the bytes of a module, which is not here any more."""
        try:
            data = self._files.mapped(module_object(digest))
        except DataLoss:
            log.warning("the storage has other bytes than those of module %s", digest)
            return False
        return data is not None and digest_of_bytes(data) == digest

    def index(self, digest: str, version: int) -> memoryview | None:
        if not self._catalogue.has_index(checked_digest(digest), version):
            return None
        view = self._files.mapped(index_object(digest, version))
        self.usage.note(digest)
        return view

    def drop_index(self, digest: str, version: int) -> None:
        with self._catalogue.writing() as connection:
            rows.forget_indexes(connection, [(checked_digest(digest), version)])
        self._files.drop(index_object(digest, version))

    def drop_older_indexes(self, digest: str, version: int) -> None:
        with self._catalogue.writing() as connection:
            older = rows.older_indexes(connection, checked_digest(digest), version)
            rows.forget_indexes(connection, older)

    def collect(self, version: int) -> Evicted:
        """Remove indexes of formats older than ``version``, what is beyond ``Limits.store_size``, and unwanted objects;
        what went."""
        with self._catalogue.writing() as connection:
            older = [key for key in self._catalogue.indexes_within(connection) if key[1] < version]
            rows.forget_indexes(connection, older)
            evicted = self._make_room(connection, 0)
        self._report(evicted)
        self.adopt()
        return replace(evicted, indexes=[*older, *evicted.indexes])

    @contextmanager
    def attempt(self, digest: str, version: int) -> Iterator[Attempt]:
        """``waited`` also where an index is there by now: it was made between the question for it and the lock."""
        with self._turn(checked_digest(digest)) as held, self.scratch() as file:
            with self._catalogue.writing(survives_power_cut=False) as connection:
                before = rows.count_attempt(connection, checked_digest(digest), version)
                made = rows.index_size(connection, checked_digest(digest), version) > 0
            yield Attempt(*before, held.waited or made, file)

    @contextmanager
    def _turn(self, digest: Digest) -> Iterator[HeldLock]:
        seconds = self._limits.build_seconds
        with ExitStack() as stack:
            try:
                held = stack.enter_context(self._locks.hold(BUILDING, digest, seconds))
            except TimeoutError:
                raise DeadlineExceeded(
                    f"another daemon has been indexing the module for more than {seconds:g} s and has not ended",
                    where=f"modules/{digest}",
                    hint="ask again; where that daemon stands still, let it go on or end it",
                    metadata={"limit": "build_seconds", "value": f"{seconds:g}"},
                ) from None
            yield held

    def figures(self) -> Figures:
        with disk(self._incoming_folder):
            return Figures(*self._catalogue.sums(), self.writability.free(), self._catalogue.damaged())

    def _take_out(self, connection: Connection, digest: Digest) -> None:
        rows.delete(connection, [digest])

    def _notify_removed(self, digests: Sequence[str]) -> None:
        super()._notify_removed(digests)
        if digests:
            self._housekeeping.hurry()

    def _incoming(self) -> IncomingFile:
        make_folder(self._incoming_folder, durable=False)  # it lies in a cache, which somebody may have emptied
        return IncomingFile(self._incoming_folder, durable=False)

    def _accept(self, file: IncomingFile, digest: Digest, size: int, label: str, format: str) -> None:  # noqa: A002
        """The object, then its row; when the row is refused, or never comes, the object is unwanted."""
        name = module_object(digest)
        with self._locks.hold(STORING, digest) as held, self._noticed():
            self._catalogue.note_coming(name, digest)
            self._files.add(name, file.path)
            held.check()
            with self._adding(digest, lambda connection: bytes_of_module(connection, digest, size)) as connection:
                rows.insert(connection, ModuleRecord(digest, size, format, label, time.time()))
                connection.execute(
                    "UPDATE modules SET damaged = FALSE WHERE sha256 = ? AND damaged IS NOT FALSE", (digest,)
                )
        self.usage.note(digest)

    def keep_index(self, file: IncomingFile, digest: str, version: int, format: str = "") -> bool:  # noqa: A002
        """Where there is no room the index is not kept."""
        digest, is_first = checked_digest(digest), False
        name, size = index_object(digest, version), file.size
        if not self.is_catalogued(digest):
            raise self._not_found(digest)
        try:
            with self._locks.hold(STORING, digest) as held, self._noticed():
                self._catalogue.note_coming(name, digest, version)
                self._files.add(name, file.path)
                held.check()
                with self._adding(
                    digest,
                    lambda connection: bytes_of_index(connection, digest, version, size),
                    survives_power_cut=bool(format),
                ) as connection:
                    rows.keep_index(connection, digest, version, size)
                    is_first = bool(format) and self._admit(connection, digest, format)
        except LimitExceeded:
            self.forget_attempts(digest, version)
            return False
        if is_first:
            self.module_log.notify()
        return True

    @contextmanager
    def _noticed(self) -> Iterator[None]:
        """A context after whose errors housekeeping looks for unwanted objects at once."""
        try:
            yield
        except SymdError:
            self._housekeeping.hurry()
            raise

    @contextmanager
    def _adding(
        self, digest: Digest, needed: Callable[[Connection], int], *, survives_power_cut: bool = True
    ) -> Iterator[Connection]:
        """A transaction that adds ``needed`` bytes for a module, with room for them. Raises ``LimitExceeded`` where
        there can be none."""
        with self._catalogue.writing(survives_power_cut=survives_power_cut) as connection:
            evicted = self._make_room(connection, needed(connection), digest)
            yield connection
        self._report(evicted)

    def _make_room(self, connection: Connection, needed: int, kept: str = "") -> Evicted:
        evicted = chosen(connection, self.usage, self._limits, needed, kept)
        rows.forget_indexes(connection, evicted.indexes)
        rows.delete(connection, evicted.modules)
        note_evictions(connection, evicted)
        return evicted


def _check_whole(digest: str, actual: int | None, size: int) -> None:
    """Raises ``DataLoss`` for a module whose object is gone (None), or has other bytes than the ``size`` that the
    module had."""
    if actual != size:
        what = "is not in the storage" if actual is None else f"has {actual} bytes, the module had {size}"
        raise DataLoss(
            f"the object {what}",
            where=module_object(digest),
            hint="add the module again",
            metadata={"module": f"modules/{digest}"},
        )
