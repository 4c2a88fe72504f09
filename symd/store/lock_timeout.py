"""How long a thread that changes the catalogue for somebody waits for its lock: no longer than whoever asked for the change waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_thread = threading.local()


@contextmanager
def waiting_at_most(seconds: float | None) -> Iterator[None]:
    """Inside, in this thread, changes wait for the catalogue's lock for so many seconds from now at most; None: as long as any change may."""
    _thread.until = None if seconds is None else time.monotonic() + seconds
    try:
        yield
    finally:
        _thread.until = None


def patience() -> float | None:
    """The seconds of ``waiting_at_most`` that are left; None outside of it. Only changes that are made for one caller ask: an index is made for all
    who want it, and its rows wait as long as any change may."""
    until: float | None = getattr(_thread, "until", None)
    return None if until is None else max(until - time.monotonic(), 0.0)
