"""Watches that are open, each client's share of them, and how they end when the daemon does."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from symd.config import Limits
from symd.errors import Busy
from symd.server.peer_names import tcp_remote


class Watches:
    """Knows the watches that are open, each of which holds a sleeping thread for long, and ends them all when asked to."""

    def __init__(self, limits: Limits) -> None:
        self._most = limits.client_watches
        self._lock = threading.Lock()
        self._open: dict[int, Callable[[], None]] = {}
        self._count: Counter[str] = Counter()
        """By client."""

    @contextmanager
    def opened(self, client: str, close: Callable[[], None]) -> Iterator[None]:
        """Know this watch while it lasts; ``close`` ends it. Raises ``Busy`` where that is one too many of ``client``: its name, or
        the peer as gRPC names it where it has none."""
        where = tcp_remote(client)
        name = where.address if where is not None else client
        key = id(close)
        with self._lock:
            if self._count[name] >= self._most:
                raise self._too_many(name)
            self._count[name] += 1
            self._open[key] = close
        try:
            yield
        finally:
            with self._lock:
                del self._open[key]
                self._count[name] -= 1
                if not self._count[name]:
                    del self._count[name]

    def close(self) -> None:
        """End those that are open."""
        with self._lock:
            closing = tuple(self._open.values())
        for close in closing:
            close()

    def _too_many(self, client: str) -> Busy:
        return Busy(
            f"{client} has {self._most} watches open already",
            hint="close some; client_watches may be raised where the daemon is started",
            metadata={"limit": "client_watches", "value": str(self._most)},
        )
