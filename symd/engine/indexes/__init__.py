"""The life of an index: partial, whole, stored, or a failure that is remembered.

An index answers every question about a module by search. Making one takes a while, so there are layers, and a question
is answered by the first that can:

1. *Open*: a whole index in memory or mapped, in ``IndexCache``. Looking there takes no lock; it is all that most
   questions ever do. What was used longest ago is closed when the open ones take more than ``Limits.open_indexes``
   bytes.
2. *Partial*: a module that is opened and of which only what the questions so far needed is decoded (``PartialIndex``).
   It has the format of a whole one and gives the same answers, or none: then the next layer is asked. A process that
   answers a few questions about one file and ends (``index.partial``) goes no further than it must. A store's module
   has one when it has many code objects and the questions name kernels, so that the first answer need not wait for all
   of them; the whole is made meanwhile, where there is somewhere else to make it.
3. *Stored*: the index file that the store has under the module's digest and ``symd.index.VERSION``. One that is
   damaged, or is not what the schema says, is made anew. The first question for one address is answered from the file,
   without opening it (``search_stored_index``): what is read of it is compared with its checksums; the next one opens
   it.
4. *Built*: made from the module's bytes and put into the store. Whoever asks first builds; others who ask for the same
   module wait.

Whoever reads a module's bytes is a ``Reader``: in a daemon another process, for large modules and for small. What it
makes of them comes back as an index file, which is checked before anything of it is believed.

*Failures* are answers too. That bytes are malformed, unsupported or beyond a limit is the same every time: the store
keeps the error under digest and version (``store.catalogued`` says which kinds last), and it is raised again without
another look at the bytes, unless the limit that it names has been raised since. A module that was just added and cannot
be indexed is taken out of the store again; what is remembered stays. A new ``symd.index.VERSION`` forgets indexes and
failures alike, because both are kept under it.

*Attempts* are counted before they begin, so that bytes which end the process that reads them, or this one, do so
``MAX_ATTEMPTS`` times and not forever: then the module is malformed, and that is remembered. An answer or an error
forgets the count.

*Damage*: where the bytes of a stored module are not those of its digest any more, its file is set aside. Its index,
which has a checksum of its own, goes on answering, and adding the same bytes again mends the rest.

*Ahead*: the index of a module that came piece by piece is begun when its bytes are whole and hashed, while the disk
still takes them in; nothing is kept of it before the module's own row is.

*Admission*: ``add``, ``keep`` and ``admit`` take a module whose bytes are at hand through the layers once, so that what
is in the catalogue with a format has been opened, and tell those who listen that it is there.

``indexes`` has all that. Here are the open indexes, kept while they are used, the index that a store has of a file,
found without an engine, the attempts, and what builds in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import heapify, heappop, heappush, heapreplace
from pathlib import Path
from typing import NamedTuple

from symd.config import default_store
from symd.errors import DataLoss, DeadlineExceeded, InvalidInput, Malformed, SymdError, WorkerDied
from symd.formats.containers.file_part import sha256_of
from symd.index import VERSION
from symd.index.lookup import Index
from symd.model.frame_text import printable
from symd.store import ModuleStore
from symd.store.files import IncomingFile, disk, mapped
from symd.store.folder import StorePaths, check_private
from symd.system.messages import complain

_LEAST_COMPACTED = 64
"""A heap of fewer entries is left as it is."""


class IndexCache:
    """The most recently used indexes that together take no more than ``budget`` bytes. The last one put stays, however
    large it is. Safe to use from several threads; whoever only looks takes no lock.

    Time is counted in turns: one ends when an index is put, and when one is asked for again that was asked for in it.
    Of indexes that were last asked for in the same turn none counts as older. So many of them share a number, and a
    look at one that has left the processor's caches neither makes nor frees one."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._lock = threading.Lock()
        self._items: dict[str, Index] = {}
        self._oldest: list[tuple[int, str]] = []
        self._turn = 0
        self._held = 0
        self._noted = -1

    def asked(self) -> list[str]:
        """The modules whose indexes were asked for since this was called last."""
        with self._lock:
            since, self._noted = self._noted, self._turn
            self._turn += 1
            return [digest for digest, item in self._items.items() if item.used > since]

    def get(self, digest: str) -> Index | None:
        found = self._items.get(digest)
        if found is None:
            return None
        turn = self._turn
        if found.used == turn:
            self._turn = turn = turn + 1
        found.used = turn
        return found

    def put(self, digest: str, item: Index) -> None:
        """Keep an index, in place of an older one of that module."""
        with self._lock:
            self._forget(digest)
            item.used = self._turn
            self._items[digest] = item
            self._note_oldest(digest)
            self._turn += 1
            self._held += item.weight
            self._shrink()

    def digests(self) -> tuple[str, ...]:
        """The modules whose indexes are open."""
        return tuple(self._items)

    def forget(self, digest: str) -> None:
        """Let go of a module's index."""
        with self._lock:
            self._forget(digest)

    def _note_oldest(self, digest: str) -> None:
        """Add an index to the heap, which is made anew where most of it is of indexes that are gone."""
        if len(self._oldest) < 2 * len(self._items) + _LEAST_COMPACTED:
            heappush(self._oldest, (self._turn, digest))
        else:
            self._oldest = [(item.used, each) for each, item in self._items.items()]
            heapify(self._oldest)

    def _shrink(self) -> None:
        """What was asked for since it was noted is noted anew, so that the heap's top is in truth the oldest."""
        while self._held > self._budget and len(self._items) > 1:
            turn, digest = self._oldest[0]
            held = self._items.get(digest)
            if held is not None and held.used != turn:
                heapreplace(self._oldest, (held.used, digest))
            else:
                heappop(self._oldest)
                self._forget(digest)

    def _forget(self, digest: str) -> None:
        held = self._items.pop(digest, None)
        if held is not None:
            self._held -= held.weight

    def clear(self) -> None:
        with self._lock:
            self._items.clear()
            self._oldest.clear()
            self._held = 0

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, digest: str) -> bool:
        """Whether an index is open, without counting as a use."""
        return digest in self._items


def stored_index(store: str, data: bytes) -> Index | None:
    """The index of a module's bytes in a store's folder, "default" for that of the daemon that runs here; None where it
    has none that is sound. Raises ``FailedPrecondition`` where others may write in the folder, and StoreUnavailable."""
    folder = default_store() if store == "default" else Path(store)
    digest = sha256_of(data)
    with disk(folder):
        check_private(folder)
        try:
            file = mapped(StorePaths(folder).index(digest, VERSION))
        except FileNotFoundError:
            _say_no_store(StorePaths(folder))
            return None
    try:
        return Index.open_checked(file, digest)
    except DataLoss:
        return None  # the daemon makes it anew


def _say_no_store(paths: StorePaths) -> None:
    """Where a folder is no store it may be another that was meant."""
    try:
        paths.check_store()
    except InvalidInput as error:
        complain(f"{printable(str(paths.root))}: {error.message}, so the file itself is read")


MAX_ATTEMPTS = 3
"""How often a module may end the process that indexes it, or the one that asked for it."""


class BuildAttempt(NamedTuple):
    """An attempt to index a module: the index that another process has made meanwhile, or None, and the ``file`` to
    make one in."""

    made: Index | None
    file: IncomingFile


class IndexAttempts:
    """The attempts to index modules of a store. Safe to use from several threads."""

    def __init__(self, store: ModuleStore) -> None:
        self._store = store
        self._running: set[str] = set()

    @contextmanager
    def one(self, digest: str, made_meanwhile: Callable[[], Index | None]) -> Iterator[BuildAttempt]:
        """An attempt, counted for as long as it has no answer; its error is remembered where it lasts.
        ``made_meanwhile`` is asked where another process was waited for. Raises ``Malformed`` where there were too many
        attempts."""
        with self._store.attempt(digest, VERSION) as before, self._count_failure(digest):
            found = made_meanwhile() if before.waited else None
            if found is not None:
                self._store.forget_attempts(digest, VERSION)
            elif before.begun >= MAX_ATTEMPTS:
                raise _given_up(before.begun, before.ending)
            yield BuildAttempt(found, before.file)

    def forget(self) -> None:
        """Take back the attempts that are running, which end now with this process: none of them counts."""
        for digest in tuple(self._running):
            self._store.forget_attempts(digest, VERSION)

    @contextmanager
    def _count_failure(self, digest: str) -> Iterator[None]:
        """What becomes of the count when an attempt ends with an error."""
        self._running.add(digest)
        try:
            yield
        except (DeadlineExceeded, WorkerDied) as error:
            self._store.note_attempt(digest, VERSION, error.message)
            raise
        except SymdError as error:
            if not self._store.remember_failure(digest, VERSION, error):
                self._store.forget_attempts(digest, VERSION)
            raise
        finally:
            self._running.discard(digest)


def _given_up(begun: int, ending: str) -> Malformed:
    last = ending or "the process that asked for it was killed"
    return Malformed(
        f"symd cannot read it: {begun} attempts to index it had no end; the last: {last}",
        hint="delete the module to have it tried again",
        metadata={"attempts": str(begun)},
    )


BUILD_THREADS = 4
"""Builds that run at a time."""
_MOST_WAITING = 1000
"""Modules that wait for one of these."""


class BackgroundBuilds:
    """Calls ``build`` with each digest that is added, in daemon threads of its own: the end of the process waits for
    none. A thread ends when nothing waits. A digest that finds no room, or no thread, is dropped: the next question
    about the module builds its index. Safe to use from several threads."""

    def __init__(self, build: Callable[[str], None]) -> None:
        self._build = build
        self._lock = threading.Lock()
        self._waiting: dict[str, None] = {}
        self._running = 0
        self._closed = False

    def add(self, digest: str) -> None:
        """Build the index of a module soon, unless too many wait already."""
        with self._lock:
            if self._closed or digest in self._waiting or len(self._waiting) >= _MOST_WAITING:
                return
            self._waiting[digest] = None
            if self._running < BUILD_THREADS:
                self._start()

    def close(self) -> None:
        """Forget what waits. Builds that run are not ended."""
        with self._lock:
            self._closed = True
            self._waiting.clear()

    def _start(self) -> None:
        try:
            threading.Thread(target=self._run, name="symd-build", daemon=True).start()
        except RuntimeError:  # the system has no thread left
            if not self._running:
                self._waiting.clear()
        else:
            self._running += 1

    def _run(self) -> None:
        try:
            while (digest := self._next()) is not None:
                self._build(digest)
        except BaseException:  # a defect, which the interpreter reports
            with self._lock:
                self._running -= 1
            raise

    def _next(self) -> str | None:
        """The digest that waits longest; None where none does, and then the thread counts as ended."""
        with self._lock:
            if not self._waiting:
                self._running -= 1
                return None
            digest = next(iter(self._waiting))
            del self._waiting[digest]
            return digest
