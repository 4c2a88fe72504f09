"""Word of modules as they arrive, for those who wait for them: told at once, bounded for those who are slow."""

from __future__ import annotations

import secrets
import threading
import weakref
from collections import deque
from types import TracebackType
from typing import Self

from symd.errors import LimitExceeded
from symd.model.identities import Digest

BACKLOG = 10_000
"""Arrivals that may wait for one listener."""


class Arrivals:
    """Tells listeners the digest of each module that arrives. Safe to use from several threads."""

    def __init__(self) -> None:
        self.writer = secrets.token_hex(8)
        """Tells this process's own arrivals from those that it hears of."""
        self._lock = threading.Lock()
        self._listeners: weakref.WeakSet[Listener] = weakref.WeakSet()

    def announce(self, digest: Digest) -> None:
        """Tell all who listen now."""
        for listener in self._all():
            listener.tell(digest)

    def lose(self) -> None:
        """Tell all who listen now that there were arrivals nobody knows any more."""
        for listener in self._all():
            listener.lose()

    def listen(self) -> Listener:
        """A listener that hears everything from now on, until it is closed."""
        listener = Listener(self)
        with self._lock:
            self._listeners.add(listener)
        return listener

    def forget(self, listener: Listener) -> None:
        with self._lock:
            self._listeners.discard(listener)

    def close(self) -> None:
        """Close every listener."""
        for listener in self._all():
            listener.close()

    def _all(self) -> tuple[Listener, ...]:
        with self._lock:
            return tuple(self._listeners)


class Listener:
    """The arrivals that one listener has not taken yet."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._news = threading.Condition()
        self._waiting: deque[Digest] = deque()
        self._lost = False
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        return self._closed

    def __len__(self) -> int:
        """Arrivals that wait to be taken."""
        with self._news:
            return len(self._waiting)

    def tell(self, digest: Digest) -> None:
        with self._news:
            if len(self._waiting) < BACKLOG:
                self._waiting.append(digest)
            else:
                self._lost = True
            self._news.notify_all()

    def lose(self) -> None:
        with self._news:
            self._lost = True
            self._news.notify_all()

    def take(self) -> Digest | None:
        """The next digest, as soon as there is one; None when the listener was closed.

        Raises ``LimitExceeded`` after the last before one was lost because too many were waiting.
        """
        with self._news:
            self._news.wait_for(lambda: self._waiting or self._lost or self._closed)
            if self._closed:
                return None
            if self._waiting:
                return self._waiting.popleft()
        raise LimitExceeded(
            f"more than {BACKLOG} modules arrived while nobody took the news",
            hint="watch again; modules that are there already are looked at first",
            metadata={"limit": "backlog", "value": str(BACKLOG)},
        )

    def close(self) -> None:
        """Hear no more; whoever waits is woken. From any thread, any number of times."""
        self._arrivals.forget(self)
        with self._news:
            self._closed = True
            self._news.notify_all()
