"""Semaphores that a handler's thread acquires for as long as its caller waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from symd.service.call import Call, CallEnded

_PERIOD: Final = 0.1
"""Seconds between two looks whether the caller still waits."""


@contextmanager
def acquired(semaphore: threading.Semaphore, call: Call) -> Iterator[None]:
    """Hold the semaphore. Raises ``CallEnded`` where the call ends before it is acquired."""
    while not semaphore.acquire(timeout=_PERIOD):
        if not call.is_active():
            raise CallEnded
    try:
        if not call.is_active():
            raise CallEnded
        yield
    finally:
        semaphore.release()
