"""The indexes of the modules in a store, from the first layer that has them (``symd.engine.indexes`` lists the layers),
under a lock for each module.

``IndexAhead`` makes the index of an uploaded module while the disk still takes the file in; ``SummaryCache`` keeps
modules of many code objects that are answered in part while their whole indexes are made.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from copy import copy
from functools import partial
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

from symd.api import Pending
from symd.config import Limits
from symd.engine.indexes import BackgroundBuilds, BuildAttempt, IndexAttempts, IndexCache
from symd.engine.reading import ModuleFile
from symd.engine.reading.questions import IndexFor, MakeIndex, Outline, Reader, WorkerRequest
from symd.errors import DataLoss, DeadlineExceeded, SymdError, Unavailable
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


class IndexAhead:
    """A context manager that begins an index ahead: inside, a thread of its own has ``reader`` make it, in a file that
    ``scratch`` gives. Leaving does not wait for the thread. The thread closes the descriptor of ``module``. Entering
    gives None where no thread can be started: then nothing is begun.

    ``is_admitted`` says whether the module was admitted with its index."""

    def __init__(
        self, reader: Reader, module: ModuleFile, scratch: Callable[[], AbstractContextManager[IncomingFile]]
    ) -> None:
        self.is_admitted = False
        self._reader, self._module, self._scratch = reader, module, scratch
        self._made, self._left = threading.Event(), threading.Event()
        self._file: IncomingFile | None = None
        self._error: SymdError = Unavailable("the index was not made", hint="add the module again")

    def __enter__(self) -> Self | None:
        run = contextvars.copy_context().run  # log lines and spans of the thread belong to the call served here
        try:
            threading.Thread(target=run, args=(self._make,), name="symd-index-ahead", daemon=True).start()
        except RuntimeError:  # the system has no thread left
            self._close_module()
            return None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.set()

    def index(self) -> IncomingFile:
        """The index file, once it is made, until the end. Raises what making it raises."""
        self._made.wait()
        if self._file is None:
            raise self._error
        return self._file

    def _make(self) -> None:
        try:
            with self._scratch() as file:
                self._reader.ask(self._module, MakeIndex(os.fspath(file.path)))
                self._file = file
                self._made.set()
                self._left.wait()
        except SymdError as error:  # raised where it is waited for
            self._error = error
        finally:
            self._made.set()
            self._close_module()

    def _close_module(self) -> None:
        if self._module.descriptor is not None:
            os.close(self._module.descriptor)


_MOST_OUTLINES = 4


class Outlined(NamedTuple):
    """A module whose whole index is not made yet: its summary, and the last index that was made for some queries."""

    summary: ModuleSummary
    queries: frozenset[Query] = frozenset()
    some: Index | None = None


class SummaryCache:
    """The last few modules without a whole index (``Outlined``), by digest. Safe to use from several threads."""

    def __init__(self) -> None:
        self._kept: dict[str, Outlined] = {}
        self._lock = threading.Lock()

    def get(self, digest: str) -> Outlined | None:
        return self._kept.get(digest)

    def digests(self) -> tuple[str, ...]:
        """The modules that are kept."""
        return tuple(self._kept)

    def keep(self, digest: str, outlined: Outlined) -> None:
        with self._lock:  # another thread's insertion would end the iteration
            while len(self._kept) >= _MOST_OUTLINES and digest not in self._kept:
                del self._kept[next(iter(self._kept))]
            self._kept[digest] = outlined

    def replace(self, digest: str, known: Outlined, outlined: Outlined) -> None:
        """Keep ``outlined`` where ``known`` is what is kept of the module still."""
        with self._lock:
            if self._kept.get(digest) is known:
                self._kept[digest] = outlined

    def forget(self, digest: str) -> None:
        with self._lock:
            self._kept.pop(digest, None)


class ModuleLocks:
    """A lock for each module, by digest. Safe to use from several threads. A holder that passes a limit of time
    passes its error on to all who wait for the same work, who do not begin anew: each of them would take as long
    again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._released: dict[str, Future[None]] = {}
        """A future for each lock that is held, by digest; it is done when the lock is released."""
        self._thread = threading.local()

    @contextmanager
    def without_waiting(self) -> Iterator[None]:
        """Inside, in this thread, ``hold`` raises ``Pending`` where it would wait."""
        self._thread.never_waits = True
        try:
            yield
        finally:
            self._thread.never_waits = False

    @contextmanager
    def hold(self, digest: str, *, shares_limit: bool = True) -> Iterator[None]:
        """Hold the lock of a module. Raises ``DeadlineExceeded`` where the holder before passed a limit of time; for
        work of another kind, which does not take that long, ``shares_limit`` is false, and it begins then."""
        mine: Future[None] = Future()
        mine.set_running_or_notify_cancel()  # nobody who waits for it can cancel it
        while (holder := self._holder(digest, mine)) is not mine:
            if getattr(self._thread, "never_waits", False):
                raise Pending(holder if shares_limit else _ended(holder))
            late = holder.exception()
            if late is not None and shares_limit:
                raise copy(late)
        late = None
        try:
            yield
        except DeadlineExceeded as error:
            late = copy(error)  # without the frames that it passes through
            raise
        finally:
            with self._lock:
                del self._released[digest]
            if late is None:
                mine.set_result(None)
            else:
                mine.set_exception(late)

    def _holder(self, digest: str, mine: Future[None]) -> Future[None]:
        """What the holder of the lock will complete: ``mine`` where the lock was free, and is taken now."""
        with self._lock:
            return self._released.setdefault(digest, mine)


def _ended(work: Future[None]) -> Future[None]:
    """A future that is done when ``work`` is, without its error."""
    ended: Future[None] = Future()
    ended.set_running_or_notify_cancel()
    work.add_done_callback(lambda _: ended.set_result(None))
    return ended


T = TypeVar("T")
MAX_COPIED_INDEX = 64 << 20
"""An index of fewer bytes is read into memory, so that nothing that becomes of its file afterwards changes an answer; a
larger one is mapped."""
_SMALL_MODULE_BYTES = 1 << 16
"""A module of so many bytes has its whole index as soon as a part of it."""
_ASKED_ONCE = 1 << 12
"""Modules that are remembered as asked about."""


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
        self._outlined = SummaryCache()
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
        return self.get_open(digest) or self._open_or_build(digest, None)

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
            outlined = self._outline(digest, None)
            found = self._for_some(digest, outlined, frozenset(queries)) if outlined else None
        return found or self.whole(digest)

    def add(self, digest: str, data: bytes, label: str) -> ModuleSummary:
        """Put a module into the store and index it. Where it is there already nothing changes."""
        with self._store.adding(digest, VERSION, data, label) as arrival:
            fresh = None if arrival.path is None else ModuleFile(digest, str(arrival.path), data)
            return self._indexed(arrival, digest, fresh)

    def keep(self, upload: Upload, digest: str, label: str) -> ModuleSummary:
        """Put a module whose bytes came piece by piece into the store and index it. ``digest`` is the SHA-256 that
        the bytes should have. Where the module is there already nothing changes."""
        upload.check_digest(digest)
        with (
            self._store.adding(digest, VERSION) as arrival,
            self._begin_index(upload, digest) if arrival.is_new else nullcontext() as ahead,
        ):
            arrival.commit(upload, digest, label)
            return self._indexed(arrival, digest, ahead=ahead)

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

    def admit(self, digest: str) -> ModuleSummary:
        """Index a module that is in the store and never was. It stays where that fails for a reason that may pass, and
        where it never will it is taken out again."""
        try:
            summary = (self._outline(digest, None) or self.whole(digest)).summary
        except SymdError as error:
            if self._store.remember_failure(digest, VERSION, error):
                self._store.refuse(digest, VERSION, error)
            raise
        self._store.admit(digest, summary.format)
        return summary

    def renew(self, digest: str) -> None:
        """Make the index of a module that has only indexes of older formats, which go then. It is not kept open.
        Whoever asks for the module meanwhile waits, or has done this already."""
        with self._locks.hold(digest):
            if self.get_open(digest) is None and self._store.index(digest, VERSION) is None:
                self._build_once(digest, None)
            self._store.drop_older_indexes(digest, VERSION)

    def remove(self, digest: str) -> None:
        """Take a module out of the store and forget its index, also one that is being made. Raises
        ``ModuleNotFound``."""
        with self._locks.hold(digest, shares_limit=False):
            self._store.remove(digest)
            self._outlined.forget(digest)
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
        for digest in (*self._cache.digests(), *self._outlined.digests()) if digests is None else digests:
            self._outlined.forget(digest)
            self._cache.forget(digest)

    def _indexed(
        self, arrival: Arrival, digest: str, fresh: ModuleFile | None = None, ahead: IndexAhead | None = None
    ) -> ModuleSummary:
        """Index a module that is being added, and say with which format it is admitted. ``fresh``: its bytes, where
        they are in memory; ``ahead``: its index, where that was begun."""
        known = None if arrival.is_new else self.get_open(digest)
        outline = None if known or ahead else self._outline(digest, fresh)
        summary = (known or outline or self._open_or_build(digest, fresh, ahead)).summary
        if ahead is None or not ahead.is_admitted:
            arrival.format = summary.format
        return summary

    def _open_or_build(self, digest: str, fresh: ModuleFile | None, ahead: IndexAhead | None = None) -> Index:
        """Open the stored index or build one, one thread at a time. ``fresh`` are the bytes, and ``ahead`` is the
        index, of a module of which nothing is stored or remembered yet."""
        with self._locks.hold(digest):
            found = self.get_open(digest)
            if found is None:
                stored = None if fresh or ahead else self._try_open(digest, self._store.index(digest, VERSION))
                found = stored or self._build_once(digest, fresh, ahead)
                self._cache.put(digest, found)
                self._outlined.forget(digest)
                if fresh is None:
                    self._check_there(digest)
            return found

    def _check_there(self, digest: str) -> None:
        """A module that was removed while its index was opened, or it was outlined, is not kept: nobody else would say
        so."""
        if not self._store.is_catalogued(digest):
            self._outlined.forget(digest)
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

    def _build_once(self, digest: str, fresh: ModuleFile | None, ahead: IndexAhead | None = None) -> Index:
        """Build the index as a counted attempt, or take what another process has built. Raises a remembered failure."""
        if fresh is None and ahead is None:
            self._store.raise_failure(digest, VERSION)
        with self._attempts.one(digest, partial(self._built_by_other_process, digest)) as attempt:
            if attempt.made is not None:
                return attempt.made
            return self._build(digest, fresh, ahead, attempt)

    def _build(self, digest: str, fresh: ModuleFile | None, ahead: IndexAhead | None, attempt: BuildAttempt) -> Index:
        """Build the index, or take that of ``ahead``, and keep it in the store."""
        file = attempt.file
        if ahead is not None:
            file = ahead.index()
        else:
            self.ask(digest, MakeIndex(str(file.path)), fresh)
        opened = Index.open_checked if fresh is None and ahead is None else Index.open_checked_with_summary
        try:
            found = opened(_stored(file), digest)
        except DataLoss:
            message = "the index that was just written does not read"
            raise DataLoss(message, where=digest, hint="try again") from None
        is_kept = self._store.keep_index(file, digest, VERSION, "" if ahead is None else found.summary.format)
        if ahead is not None:
            ahead.is_admitted = is_kept
        return found

    def _built_by_other_process(self, digest: str) -> Index | None:
        """The stored index, if another process has built it; raises the failure that it remembered instead."""
        self._store.raise_failure(digest, VERSION)
        return self._try_open(digest, self._store.index(digest, VERSION))

    def _outline(self, digest: str, fresh: ModuleFile | None) -> Outlined | None:
        """The module opened and not decoded; None when it has an index, or is of few code objects."""
        known = self._outlined.get(digest)
        if known is not None:
            return known
        if fresh is None and self._store.index(digest, VERSION) is not None:
            return None
        data = (fresh and fresh.data) or self._store.data(digest)
        if len(data) <= _SMALL_MODULE_BYTES or data[:4] == MAGIC:
            return None
        if fresh is None:
            self._store.raise_failure(digest, VERSION)
        summary = self.ask(digest, Outline(), fresh)
        if summary is None:
            return None
        made = Outlined(unpack(summary))
        self._outlined.keep(digest, made)
        if self._store.index(digest, VERSION) is not None:
            self._outlined.forget(digest)  # the index was made meanwhile
            return None
        self._check_there(digest)
        if self._reader.elsewhere:
            self._background.add(digest)
        return made

    def _for_some(self, digest: str, outlined: Outlined, queries: frozenset[Query]) -> Index | None:
        """An index that answers ``queries`` alone, or None."""
        if outlined.some is None or not queries <= outlined.queries:
            file = self.ask(digest, IndexFor(tuple(queries)))
            if file is None:
                return None
            known = outlined
            outlined = known._replace(some=Index.open_checked(file), queries=queries)
            self._outlined.replace(digest, known, outlined)
        return outlined.some

    def _build_in_background(self, digest: str) -> None:
        """Build an index that nobody waits for. What goes wrong is remembered, or met again by whoever asks next."""
        with suppress(SymdError):
            self.whole(digest)


def _stored(file: IncomingFile) -> memoryview | bytes:
    """What was written into the file of an index."""
    path = file.path
    return path.read_bytes() if path.stat().st_size <= MAX_COPIED_INDEX else file.mapped()
