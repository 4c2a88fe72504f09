"""Places for work of which there is little at a time, waited for in the handler's thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from symd.service.call import Call, CallEnded

_PERIOD: Final = 0.1
"""Seconds after which one who waits looks whether his caller still does."""


@contextmanager
def place(places: threading.Semaphore, call: Call) -> Iterator[None]:
    """One of the ``places``, as long as it is needed. Raises ``CallEnded`` where the caller leaves before there is one."""
    while not places.acquire(timeout=_PERIOD):
        if not call.is_active():
            raise CallEnded
    try:
        if not call.is_active():
            raise CallEnded
        yield
    finally:
        places.release()
