"""What an engine keeps of modules' indexes in memory: the open ones while they are used, and the last few modules that
are answered in part while their whole indexes are made. An index that a store has of a file is opened without an
engine."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace
from pathlib import Path

from symd.config import default_store
from symd.errors import DataLoss, InvalidInput
from symd.formats.containers.file_part import sha256_of
from symd.index import VERSION
from symd.index.lookup import Index
from symd.model.addresses import Query
from symd.model.frame_text import printable
from symd.model.summaries import ModuleSummary
from symd.store.files import disk, mapped
from symd.store.folder import StorePaths, check_private
from symd.system.messages import complain

_MIN_COMPACTED = 64
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
        if len(self._oldest) < 2 * len(self._items) + _MIN_COMPACTED:
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


_MAX_PARTIAL_MODULES = 4


@dataclass(frozen=True, slots=True)
class PartialModule:
    """A module whose whole index is not made yet: its summary, and the last index that was made for some queries."""

    summary: ModuleSummary
    queries: frozenset[Query] = frozenset()
    index: Index | None = None


class PartialModules:
    """The last few modules without a whole index, by digest. Safe to use from several threads."""

    def __init__(self) -> None:
        self._kept: dict[str, PartialModule] = {}
        self._lock = threading.Lock()

    def get(self, digest: str) -> PartialModule | None:
        return self._kept.get(digest)

    def digests(self) -> tuple[str, ...]:
        """The modules that are kept."""
        return tuple(self._kept)

    def keep(self, digest: str, module: PartialModule) -> None:
        with self._lock:  # another thread's insertion would end the iteration
            while len(self._kept) >= _MAX_PARTIAL_MODULES and digest not in self._kept:
                del self._kept[next(iter(self._kept))]
            self._kept[digest] = module

    def replace(self, digest: str, known: PartialModule, module: PartialModule) -> None:
        """Keep ``module`` where ``known`` is what is kept of the module still."""
        with self._lock:
            if self._kept.get(digest) is known:
                self._kept[digest] = module

    def forget(self, digest: str) -> None:
        with self._lock:
            self._kept.pop(digest, None)


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
