"""Indexes that are built before anybody waits for them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

BUILD_THREADS = 4
"""Builds that run at a time."""
_MOST_WAITING = 1000
"""Modules that wait for one of these."""


class BackgroundBuilds:
    """Calls ``build`` with each digest that is added, in daemon threads of its own: ``BUILD_THREADS`` at most. A thread
    ends when nothing waits. A digest that finds no room, or no thread, is dropped: the next question about the module
    builds its index. Safe to use from several threads."""

    def __init__(self, build: Callable[[str], None]) -> None:
        self._build = build
        self._lock = threading.Lock()
        self._waiting: deque[str] = deque()
        self._running = 0

    def add(self, digest: str) -> None:
        """Build the index of a module soon, unless too many wait already."""
        with self._lock:
            if digest in self._waiting or len(self._waiting) >= _MOST_WAITING:
                return
            self._waiting.append(digest)
            if self._running < BUILD_THREADS:
                self._start()

    def clear(self) -> None:
        """Forget what waits. Builds that run are not ended."""
        with self._lock:
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
            if self._waiting:
                return self._waiting.popleft()
            self._running -= 1
            return None
