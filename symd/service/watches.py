"""Watches that are open, and how they end when the daemon does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Watches:
    """Knows the watches that are open, each of which holds a sleeping thread for long, and ends them all when asked to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[int, Callable[[], None]] = {}

    @contextmanager
    def opened(self, close: Callable[[], None]) -> Iterator[None]:
        """Know this watch while it lasts; ``close`` ends it."""
        key = id(close)
        with self._lock:
            self._open[key] = close
        try:
            yield
        finally:
            with self._lock:
                del self._open[key]

    def close(self) -> None:
        """End those that are open."""
        with self._lock:
            closing = tuple(self._open.values())
        for close in closing:
            close()
