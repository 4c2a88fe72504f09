"""A readers-writer lock: many hold it shared, or one holds it exclusively."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class SharedLock:
    """Who waits to hold it exclusively goes before those who come later to share it. Safe to use from several threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._sharing = 0
        self._exclusive = False

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold it beside others who share it."""
        with self._changed:
            self._changed.wait_for(lambda: not self._exclusive)
            self._sharing += 1
        try:
            yield
        finally:
            with self._changed:
                self._sharing -= 1
                self._changed.notify_all()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold it alone."""
        with self._changed:
            self._changed.wait_for(lambda: not self._exclusive)
            self._exclusive = True
        try:
            with self._changed:
                self._changed.wait_for(lambda: not self._sharing)
            yield
        finally:
            with self._changed:
                self._exclusive = False
                self._changed.notify_all()
