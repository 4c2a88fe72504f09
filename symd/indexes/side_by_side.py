"""Work that is done side by side, and work that is done alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class SideBySide:
    """Attempts that are made side by side, and one that is made alone, so that what happens meanwhile is its own doing: who wants to be alone
    waits for those who work, and who comes then waits for that one. Safe to use from several threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._working = 0
        self._alone = False

    @contextmanager
    def among_others(self) -> Iterator[None]:
        """Inside others may work too."""
        with self._changed:
            self._changed.wait_for(lambda: not self._alone)
            self._working += 1
        try:
            yield
        finally:
            with self._changed:
                self._working -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Inside nobody else works."""
        with self._changed:
            self._changed.wait_for(lambda: not self._alone)
            self._alone = True
        try:
            with self._changed:
                self._changed.wait_for(lambda: not self._working)
            yield
        finally:
            with self._changed:
                self._alone = False
                self._changed.notify_all()
