"""A weighted semaphore: holders together have at most so many units, and whoever wants more waits."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class WeightedSemaphore:
    """``size`` units, which are given in the order in which they were asked for; who wants more than ``size`` gets them while nobody else
    has any, and fewer than ``least`` are not counted and not waited for. Safe to use from several threads."""

    def __init__(self, size: int, least: int = 0) -> None:
        self._size = size
        self._least = least
        self._held = 0
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()

    @contextmanager
    def acquired(self, units: int) -> Iterator[None]:
        """Wait until so many units are free, and hold them."""
        if units < self._least:
            yield
            return
        waiter = object()
        with self._changed:
            self._waiting.append(waiter)
            self._changed.wait_for(lambda: self._waiting[0] is waiter and self._fits(units))
            self._waiting.popleft()
            self._held += units
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._held -= units
                self._changed.notify_all()

    def _fits(self, units: int) -> bool:
        return not self._held or self._held + units <= self._size
