"""Bytes of large messages that the daemon holds for its clients: requests until they are answered, responses until they are taken.

What is small is not counted: it is bounded by the number of calls.
"""

from __future__ import annotations

from collections import Counter

from symd.config import Limits
from symd.errors import Busy

COUNTED_BYTES = 64 << 10
"""A smaller message is not counted."""


class BytesInFlight:
    """To be used on one event loop."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._by_client: Counter[str] = Counter()
        self.total = 0

    def hold(self, client: str, size: int) -> int:
        """Count a message; how many bytes ``release`` is to be told. Raises ``Busy`` where that would be too many."""
        if size < COUNTED_BYTES:
            return 0
        self._check("bytes_in_flight", self.total + size, self._limits.bytes_in_flight, "all clients")
        mine = self._by_client[client] + size
        self._check("client_bytes_in_flight", mine, self._limits.client_bytes_in_flight, "this client")
        self._by_client[client] = mine
        self.total += size
        return size

    def release(self, client: str, size: int) -> None:
        """Say that so many bytes are held no longer."""
        if size:
            self.total -= size
            self._by_client[client] -= size
            if not self._by_client[client]:
                del self._by_client[client]

    def _check(self, name: str, size: int, most: int, whose: str) -> None:
        if size > most:
            raise Busy(
                f"large messages of {whose} would take {size} bytes at a time, at most {most} are taken",
                hint=f"send fewer at a time; {name} may be raised where the daemon is started",
                metadata={"limit": name, "value": str(most)},
            )
