"""Open indexes, kept while they are used."""

from __future__ import annotations

import threading
from collections import OrderedDict

from symd.index.lookup import Index


class Shelf:
    """The most recently used indexes, and one lock for each that is being made."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._items: OrderedDict[str, Index] = OrderedDict()
        self._making: dict[str, threading.Lock] = {}

    def get(self, digest: str) -> Index | None:
        with self._lock:
            found = self._items.get(digest)
            if found is not None:
                self._items.move_to_end(digest)
            return found

    def put(self, digest: str, item: Index) -> None:
        with self._lock:
            self._items[digest] = item
            self._making.pop(digest, None)
            while len(self._items) > self._size:
                self._items.popitem(last=False)

    def making(self, digest: str) -> threading.Lock:
        with self._lock:
            return self._making.setdefault(digest, threading.Lock())

    def clear(self) -> None:
        with self._lock:
            self._items.clear()
