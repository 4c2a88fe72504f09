"""Ending a child whose answer nobody wants any more."""

from __future__ import annotations

import os
import threading


class Cancelled(Exception):
    """A child was ended because nobody wanted its answer any more."""


class Cancellation:
    """Made by whoever starts a child, ``cancel`` called by whoever learns that nobody waits: from any thread, at any time."""

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._lock = threading.Lock()
        self._open = True

    def fileno(self) -> int:
        """Readable once it is cancelled."""
        return self._descriptor

    def cancel(self) -> None:
        """End the child, if there is one still. It does not wait."""
        with self._lock:
            if self._open:
                os.eventfd_write(self._descriptor, 1)

    def close(self) -> None:
        """The child has ended."""
        with self._lock:
            if self._open:
                self._open = False
                os.close(self._descriptor)
