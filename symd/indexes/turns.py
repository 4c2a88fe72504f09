"""Turns at modules among the threads of a process: whoever makes or removes a module's index does so alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from copy import copy

from symd.api import NotYet
from symd.errors import DeadlineExceeded


class Turns:
    """Safe to use from several threads. Who waits for a turn that passes a limit of time hears the same, and does not begin anew: each of
    many that wait would take as long again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: dict[str, Future[None]] = {}
        self._thread = threading.local()

    @contextmanager
    def without_waiting(self) -> Iterator[None]:
        """Inside, in this thread, ``taken`` raises ``NotYet`` where it would wait."""
        self._thread.never_waits = True
        try:
            yield
        finally:
            self._thread.never_waits = False

    @contextmanager
    def taken(self, digest: str) -> Iterator[None]:
        """Have the turn at a module. Raises ``DeadlineExceeded`` where that of another passed a limit of time."""
        mine: Future[None] = Future()
        mine.set_running_or_notify_cancel()  # nobody who waits for it can cancel it
        while (other := self._begun(digest, mine)) is not mine:
            if getattr(self._thread, "never_waits", False):
                raise NotYet(other)
            late = other.exception()
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
                del self._taken[digest]
            if late is None:
                mine.set_result(None)
            else:
                mine.set_exception(late)

    def _begun(self, digest: str, mine: Future[None]) -> Future[None]:
        """The turn that is taken: ``mine`` where it was free."""
        with self._lock:
            return self._taken.setdefault(digest, mine)
