"""What every handler is given, and the slots that bound how many long calls hold a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from symd.api import Host
from symd.config import Config
from symd.errors import LimitExceeded, Unavailable
from symd.service.watches import Watches
from symd.wire.tables import NamedTables

MAX_REQUEST = 64 << 20
"""The largest request message, bytes."""


class Slots:
    """Counts calls that may last: uploads and streams. Each holds a thread, so the others must not run out of them."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = threading.BoundedSemaphore(count)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Hold one slot. Raises ``LimitExceeded`` at once when none is free."""
        if not self._free.acquire(blocking=False):
            raise LimitExceeded(
                f"{self.count} uploads and streams are open already",
                hint="try again when one of them has ended",
                metadata={"limit": "streams", "value": str(self.count)},
            )
        try:
            yield
        finally:
            self._free.release()


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts that handlers work with."""

    engine: Host
    config: Config
    slots: Slots
    watches: Watches
    tables: NamedTables = field(default_factory=NamedTables)
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set when the daemon is asked to end: streams end after the batch at hand."""

    def check_running(self) -> None:
        """Raises ``Unavailable`` when the daemon is about to end."""
        if self.stopping.is_set():
            raise Unavailable("the daemon is stopping", hint="ask again when it is back")
