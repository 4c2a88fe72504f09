"""Modules that this process evicted: a line of the log for each, sums, and listeners."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

from symd.config import Limits
from symd.store.connection import LAST_SECOND
from symd.store.eviction import Evicted
from symd.store.rows import Eviction

log = logging.getLogger("symd.store")

Listener = Callable[[Eviction], None]
"""Called for each module that was evicted, from several threads. It must not raise."""


class Sums(NamedTuple):
    """What was evicted since the process began: modules, and the bytes of them and their indexes."""

    modules: int = 0
    bytes: int = 0


class EvictionLog:
    """Evictions of this process: a line of the log for each, sums, and listeners. Safe to use from several threads:
    evictions happen one at a time."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._listeners: list[Listener] = []
        self.sums = Sums()

    def listen(self, listener: Listener) -> None:
        """Call ``listener`` from now on."""
        self._listeners.append(listener)

    def write(self, evicted: Evicted) -> None:
        """Log what went, and why; call every listener."""
        coming = f"{evicted.needed} bytes were to come in, and " if evicted.needed else ""
        for each in evicted.evictions:
            log.warning(
                "evicted modules/%s: %d bytes, used last at %s; %sstore_size is %d",
                each.digest, each.size, moment(each.used), coming, self._limits.store_size,
            )  # fmt: skip
            self.sums = Sums(self.sums.modules + 1, self.sums.bytes + each.size)
            for listener in self._listeners:
                listener(each)


def moment(seconds: float) -> str:
    """Seconds since the epoch as people write them, in UTC."""
    return datetime.fromtimestamp(min(max(seconds, 0), LAST_SECOND), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
