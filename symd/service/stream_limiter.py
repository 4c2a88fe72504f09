"""How many long calls may hold a thread at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from symd.errors import Busy


class StreamLimiter:
    """Counts uploads and streams that are open. Each holds a thread, so the others must not run out of them."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._free = threading.BoundedSemaphore(most)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Count one more while it lasts. Raises ``Busy`` at once when there are as many as may be."""
        if not self._free.acquire(blocking=False):
            raise Busy(
                f"{self.most} uploads and streams are open already",
                hint="try again when one of them has ended",
                metadata={"limit": "streams", "value": str(self.most)},
            )
        try:
            yield
        finally:
            self._free.release()
