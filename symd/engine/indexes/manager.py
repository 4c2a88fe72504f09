"""The indexes of the modules in a store, from the first layer that has them (``symd.engine.indexes`` lists the layers),
under a lock for each module."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeVar

from symd.config import Limits
from symd.engine.indexes.builds import BackgroundBuilds, BuildAttempt, IndexAhead, IndexAttempts, ModuleLocks
from symd.engine.indexes.open_indexes import IndexCache, PartialModule, PartialModules
from symd.engine.reading import ModuleFile
from symd.engine.reading.questions import IndexFor, MakeIndex, Outline, Reader, WorkerRequest
from symd.errors import DataLoss, SymdError
from symd.formats.containers.file_part import LARGE
from symd.formats.elf.constants import MAGIC
from symd.index import VERSION, Index
from symd.index.lookup import search_index_file
from symd.index.summary import unpack
from symd.model.addresses import ByAddress, ByKernel, Query
from symd.model.answers import Answer
from symd.model.summaries import ModuleSummary
from symd.store import ModuleStore, Upload
from symd.store.catalogued import Arrival
from symd.store.files import IncomingFile

T = TypeVar("T")
MAX_COPIED_INDEX = 64 << 20
"""An index of fewer bytes is read into memory, so that nothing that becomes of its file afterwards changes an answer; a
larger one is mapped."""
_SMALL_MODULE_BYTES = 1 << 16
"""A module of so many bytes has its whole index as soon as a part of it."""
_ASKED_ONCE = 1 << 12
"""Modules that are remembered as asked about."""


class BuildSource(NamedTuple):
    """What the index of a module is made from: its bytes in the store, or ``fresh`` ones that the store does not have
    yet, or the index that was ``begun`` when the module came."""

    fresh: ModuleFile | None = None
    begun: IndexAhead | None = None

    @property
    def known_to_store(self) -> bool:
        """Whether the store may have an index of the module, or remember why it has none."""
        return self.fresh is None and self.begun is None


STORED = BuildSource()


class IndexManager:
    """The indexes of the modules in a store. Safe to use from several threads; a module that several ask for at once is
    indexed once. ``reader`` reads modules' bytes."""

    def __init__(self, store: ModuleStore, limits: Limits, reader: Reader) -> None:
        self._store = store
        self._limits = limits
        self._reader = reader
        self._cache = IndexCache(limits.open_indexes)
        self.get_open = self._cache.get
        """The open index of a module, or None: the cache's own method, because single questions ask nothing else."""
        self._partial = PartialModules()
        self._locks = ModuleLocks()
        store.usage.follow(self._cache.asked, self._cache.__contains__)
        store.removals.listen(self._forget)
        self._attempts = IndexAttempts(store)
        self._asked_once: set[str] = set()
        self._background = BackgroundBuilds(self._build_in_background)

    def without_waiting(self) -> AbstractContextManager[None]:
        """A context: inside, in this thread, ``Pending`` is raised where another thread's index would be waited for."""
        return self._locks.without_waiting()

    def whole(self, digest: str) -> Index:
        """The whole index, from the first layer that has it. Raises what is remembered of the module, or building
        it."""
        return self.get_open(digest) or self._open_or_build(digest, STORED)

    def search_stored_index(self, digest: str, query: Query) -> Answer | None:
        """The answer from the stored index of a module that is asked about for the first time, which is not opened for
        it: to open it takes several times as long, and many a module is asked about once. None where only an open index
        has it."""
        if digest in self._asked_once or not isinstance(query, ByAddress):
            return None
        if len(self._asked_once) >= _ASKED_ONCE:
            self._asked_once.clear()
        self._asked_once.add(digest)
        stored = self._store.index(digest, VERSION)
        if stored is None or not self._store.is_catalogued(digest):
            return None
        return search_index_file(stored, digest, query)

    def for_queries(self, digest: str, queries: Sequence[Query]) -> Index:
        """An index that answers ``queries``; where these name kernels, not the whole one when that is not made yet."""
        found = self.get_open(digest)
        if found is None and queries and all(isinstance(query, ByKernel) for query in queries):
            module = self._open_partially(digest, STORED)
            found = self._partial_index(digest, module, frozenset(queries)) if module else None
        return found or self.whole(digest)

    def add_bytes(self, digest: str, data: bytes, label: str) -> ModuleSummary:
        """Put a module into the store and index it. Where it is there already nothing changes."""
        with self._store.adding(digest, VERSION, data, label) as arrival:
            fresh = None if arrival.path is None else ModuleFile(digest, str(arrival.path), data)
            return self._index_arrival(arrival, digest, BuildSource(fresh=fresh))

    def add_upload(self, upload: Upload, digest: str, label: str) -> ModuleSummary:
        """Put a module whose bytes came piece by piece into the store and index it. ``digest`` is the SHA-256 that
        the bytes should have. Where the module is there already nothing changes."""
        upload.check_digest(digest)
        with (
            self._store.adding(digest, VERSION) as arrival,
            self._begin_index(upload, digest) if arrival.is_new else nullcontext() as ahead,
        ):
            arrival.commit(upload, digest, label)
            return self._index_arrival(arrival, digest, BuildSource(begun=ahead))

    def _begin_index(self, upload: Upload, digest: str) -> AbstractContextManager[IndexAhead | None]:
        """The index of a module that is whole and hashed, begun while the disk takes it in: where somebody else makes
        it, and all of it is made at once."""
        descriptor = upload.opened()
        whole_at_once = upload.size <= _SMALL_MODULE_BYTES or os.pread(descriptor, len(MAGIC), 0) == MAGIC
        if not self._reader.elsewhere or not whole_at_once or upload.size >= LARGE:
            os.close(descriptor)
            return nullcontext()
        module = ModuleFile(digest, upload.path, descriptor=descriptor, is_hashed=True)
        return IndexAhead(self._reader, module, self._store.scratch)

    def index_stored(self, digest: str) -> ModuleSummary:
        """Index a module that is in the store and never was. It stays where that fails for a reason that may pass, and
        where it never will it is taken out again."""
        try:
            summary = (self._open_partially(digest, STORED) or self.whole(digest)).summary
        except SymdError as error:
            if self._store.remember_failure(digest, VERSION, error):
                self._store.refuse(digest, VERSION, error)
            raise
        self._store.admit(digest, summary.format)
        return summary

    def rebuild_outdated(self, digest: str) -> None:
        """Make the index of a module that has only indexes of older formats, which go then. It is not kept open.
        Whoever asks for the module meanwhile waits, or has done this already."""
        with self._locks.hold(digest):
            if self.get_open(digest) is None and self._store.index(digest, VERSION) is None:
                self._build_once(digest, STORED)
            self._store.drop_older_indexes(digest, VERSION)

    def remove(self, digest: str) -> None:
        """Take a module out of the store and forget its index, also one that is being made. Raises
        ``ModuleNotFound``."""
        with self._locks.hold(digest, fails_with_holder=False):
            self._store.remove(digest)
            self._partial.forget(digest)
            self._cache.forget(digest)

    def ask(self, digest: str, question: WorkerRequest[T], fresh: ModuleFile | None = None) -> T:
        """A question about the bytes themselves; ``fresh`` are they, where they are at hand. Where the stored ones turn
        out to be damaged they are set aside, and ``DataLoss`` is raised."""
        try:
            if fresh is not None:
                return self._reader.ask(fresh, question)
            with self._store.file(digest) as path:
                return self._reader.ask(ModuleFile(digest, str(path)), question)
        except DataLoss:
            self._store.set_aside(digest)
            raise

    def close(self) -> None:
        """Forget all. Indexes that are being read stay readable; attempts that this ends are not counted."""
        self._background.close()
        self._attempts.forget()
        self._cache.clear()

    def _forget(self, digests: Sequence[str] | None) -> None:
        """Let go of modules that are gone; None: of all."""
        for digest in (*self._cache.digests(), *self._partial.digests()) if digests is None else digests:
            self._partial.forget(digest)
            self._cache.forget(digest)

    def _index_arrival(self, arrival: Arrival, digest: str, source: BuildSource) -> ModuleSummary:
        """Index a module that is being added, and say with which format it is admitted."""
        known = None if arrival.is_new else self.get_open(digest)
        opened = None if known or source.begun else self._open_partially(digest, source)
        summary = (known or opened or self._open_or_build(digest, source)).summary
        if source.begun is None or not source.begun.is_admitted:
            arrival.format = summary.format
        return summary

    def _open_or_build(self, digest: str, source: BuildSource) -> Index:
        """Open the stored index or build one, one thread at a time."""
        with self._locks.hold(digest):
            found = self.get_open(digest)
            if found is None:
                stored = self._try_open(digest, self._store.index(digest, VERSION)) if source.known_to_store else None
                found = stored or self._build_once(digest, source)
                self._cache.put(digest, found)
                self._partial.forget(digest)
                if source.fresh is None:
                    self._drop_if_removed(digest)
            return found

    def _drop_if_removed(self, digest: str) -> None:
        """A module that was removed while its index was opened, or while it was opened in part, is not kept: nobody
        else would say so."""
        if not self._store.is_catalogued(digest):
            self._partial.forget(digest)
            self._cache.forget(digest)
            self._store.record(digest)  # says why, or that it has come back

    def _try_open(self, digest: str, stored: memoryview | None) -> Index | None:
        """Open an index file. None if there is none, or if it is damaged or another module's; a new one replaces
        it."""
        if stored is None:
            return None
        try:
            return Index.open_checked(bytes(stored) if len(stored) <= MAX_COPIED_INDEX else stored, digest)
        except DataLoss:
            return None

    def _build_once(self, digest: str, source: BuildSource) -> Index:
        """Build the index as a counted attempt, or take what another process has built. Raises a remembered failure."""
        if source.known_to_store:
            self._store.raise_failure(digest, VERSION)
        with self._attempts.one(digest, partial(self._built_by_other_process, digest)) as attempt:
            if attempt.made is not None:
                return attempt.made
            return self._build(digest, source, attempt)

    def _build(self, digest: str, source: BuildSource, attempt: BuildAttempt) -> Index:
        """Build the index, or take the one that was begun, and keep it in the store."""
        file, begun = attempt.file, source.begun
        if begun is not None:
            file = begun.index()
        else:
            self.ask(digest, MakeIndex(str(file.path)), source.fresh)
        opened = Index.open_checked if source.known_to_store else Index.open_checked_with_summary
        try:
            found = opened(_stored(file), digest)
        except DataLoss:
            message = "the index that was just written does not read"
            raise DataLoss(message, where=digest, hint="try again") from None
        is_kept = self._store.keep_index(file, digest, VERSION, "" if begun is None else found.summary.format)
        if begun is not None:
            begun.is_admitted = is_kept
        return found

    def _built_by_other_process(self, digest: str) -> Index | None:
        """The stored index, if another process has built it; raises the failure that it remembered instead."""
        self._store.raise_failure(digest, VERSION)
        return self._try_open(digest, self._store.index(digest, VERSION))

    def _open_partially(self, digest: str, source: BuildSource) -> PartialModule | None:
        """The module opened and not decoded; None when it has an index, or is of few code objects."""
        known = self._partial.get(digest)
        if known is not None:
            return known
        if source.known_to_store and self._store.index(digest, VERSION) is not None:
            return None
        data = (source.fresh and source.fresh.data) or self._store.data(digest)
        if len(data) <= _SMALL_MODULE_BYTES or data[:4] == MAGIC:
            return None
        if source.known_to_store:
            self._store.raise_failure(digest, VERSION)
        summary = self.ask(digest, Outline(), source.fresh)
        if summary is None:
            return None
        made = PartialModule(unpack(summary))
        self._partial.keep(digest, made)
        if self._store.index(digest, VERSION) is not None:
            self._partial.forget(digest)  # the index was made meanwhile
            return None
        self._drop_if_removed(digest)
        if self._reader.elsewhere:
            self._background.add(digest)
        return made

    def _partial_index(self, digest: str, module: PartialModule, queries: frozenset[Query]) -> Index | None:
        """An index that answers ``queries`` alone, or None."""
        if module.index is not None and queries <= module.queries:
            return module.index
        file = self.ask(digest, IndexFor(tuple(queries)))
        if file is None:
            return None
        index = Index.open_checked(file)
        self._partial.replace(digest, module, replace(module, index=index, queries=queries))
        return index

    def _build_in_background(self, digest: str) -> None:
        """Build an index that nobody waits for. What goes wrong is remembered, or met again by whoever asks next."""
        with suppress(SymdError):
            self.whole(digest)


def _stored(file: IncomingFile) -> memoryview | bytes:
    """What was written into the file of an index."""
    path = file.path
    return path.read_bytes() if path.stat().st_size <= MAX_COPIED_INDEX else file.mapped()
