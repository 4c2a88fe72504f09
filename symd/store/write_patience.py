"""How long somebody waits for a change that a thread makes for them: so long that thread waits for others' changes, and no longer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_thread = threading.local()


@contextmanager
def waiting_at_most(seconds: float | None) -> Iterator[None]:
    """Inside, in this thread, changes that were asked for wait for the catalogue's lock so many seconds from now; None: as long as they may."""
    _thread.until = None if seconds is None else time.monotonic() + seconds
    try:
        yield
    finally:
        _thread.until = None


def patience() -> float | None:
    """Seconds that are left of it; None where nobody has said how long they wait. It is for changes that are made for one caller: an index is made for
    all who ask for it."""
    until: float | None = getattr(_thread, "until", None)
    return None if until is None else max(until - time.monotonic(), 0.0)
