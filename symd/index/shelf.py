"""Open indexes, kept while they are used."""

from __future__ import annotations

import threading
from collections import OrderedDict

from symd.index.lookup import Index


class Shelf:
    """The most recently used indexes that together take no more than ``budget`` bytes, and one lock for each that is
    being made. The last one used stays, however large it is."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._lock = threading.Lock()
        self._items: OrderedDict[str, Index] = OrderedDict()
        self._weights: dict[str, int] = {}
        self._held = 0
        self._making: dict[str, threading.Lock] = {}

    def get(self, digest: str) -> Index | None:
        with self._lock:
            found = self._items.get(digest)
            if found is not None:
                self._items.move_to_end(digest)
            return found

    def put(self, digest: str, item: Index) -> None:
        """Keep an index, in place of an older one of that module."""
        with self._lock:
            self._items[digest] = item
            self._items.move_to_end(digest)
            self._making.pop(digest, None)
            self._held += item.weight - self._weights.get(digest, 0)
            self._weights[digest] = item.weight
            while self._held > self._budget and len(self._items) > 1:
                oldest = next(iter(self._items))
                self._held -= self._weights.pop(oldest)
                del self._items[oldest]

    def making(self, digest: str) -> threading.Lock:
        with self._lock:
            return self._making.setdefault(digest, threading.Lock())

    def clear(self) -> None:
        with self._lock:
            self._items.clear()
            self._weights.clear()
            self._held = 0

    def __len__(self) -> int:
        return len(self._items)
