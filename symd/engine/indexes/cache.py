"""Open indexes, kept while they are used."""

from __future__ import annotations

import threading
from heapq import heapify, heappop, heappush, heapreplace

from symd.index.lookup import Index

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
