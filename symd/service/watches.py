"""Watches that are open: how many there may be, and how they end when the daemon does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from symd.errors import Busy


class Watches:
    """Counts watches, each of which holds a sleeping thread for long, apart from uploads and streams, and ends them all
    when asked to."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._lock = threading.Lock()
        self._open: dict[int, Callable[[], None]] = {}

    @property
    def count_open(self) -> int:
        with self._lock:
            return len(self._open)

    @contextmanager
    def taken(self, close: Callable[[], None]) -> Iterator[None]:
        """Hold a place; ``close`` ends this watch. Raises ``Busy`` at once when no place is free."""
        key = id(close)
        with self._lock:
            if len(self._open) >= self.count:
                raise Busy(
                    f"{self.count} watches are open already",
                    hint="cancel one, or put its breakpoints into one watch",
                    metadata={"limit": "watches", "value": str(self.count)},
                )
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
