"""A lock for each module among the threads of a process: whoever makes or removes a module's index holds it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from copy import copy

from symd.api import NotYet
from symd.errors import DeadlineExceeded


class ModuleLocks:
    """Safe to use from several threads. A holder that passes a limit of time passes its error on to all who wait, who do not begin anew:
    each of them would take as long again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._released: dict[str, Future[None]] = {}
        """By digest, for each lock that is held: done when it is released."""
        self._thread = threading.local()

    @contextmanager
    def without_waiting(self) -> Iterator[None]:
        """Inside, in this thread, ``held`` raises ``NotYet`` where it would wait."""
        self._thread.never_waits = True
        try:
            yield
        finally:
            self._thread.never_waits = False

    @contextmanager
    def held(self, digest: str) -> Iterator[None]:
        """Hold the lock of a module. Raises ``DeadlineExceeded`` where the holder before passed a limit of time."""
        mine: Future[None] = Future()
        mine.set_running_or_notify_cancel()  # nobody who waits for it can cancel it
        while (holder := self._holder(digest, mine)) is not mine:
            if getattr(self._thread, "never_waits", False):
                raise NotYet(holder)
            late = holder.exception()
            if late is not None:
                raise copy(late)
        late = None
        try:
            yield
        except DeadlineExceeded as error:
            late = copy(error)  # without the frames that it passes through
            raise
        finally:
            with self._lock:
                del self._released[digest]
            if late is None:
                mine.set_result(None)
            else:
                mine.set_exception(late)

    def _holder(self, digest: str, mine: Future[None]) -> Future[None]:
        """What the holder of the lock will complete: ``mine`` where the lock was free, and is taken now."""
        with self._lock:
            return self._released.setdefault(digest, mine)
