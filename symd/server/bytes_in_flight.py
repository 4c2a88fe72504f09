"""Bytes of large messages that the daemon holds for its clients: requests until they are answered, responses until they are taken,
and what responses are still to be made of.

What is small is not counted: it is bounded by the number of calls.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from symd.config import Limits
from symd.errors import Busy
from symd.server.call import Call

COUNTED_BYTES = 64 << 10
"""A smaller message is not counted."""


class BytesInFlight:
    """Counts the bytes of large messages that the daemon holds, of all clients and of each. Safe to use from several
    threads."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._by_client: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.total = 0

    def hold(self, client: str, size: int) -> int:
        """Count a message; how many bytes ``release`` is to be told. Raises ``Busy`` where that would be too many."""
        if size < COUNTED_BYTES:
            return 0
        with self._lock:
            self._check("bytes_in_flight", self.total + size, self._limits.bytes_in_flight, "all clients")
            mine = self._by_client[client] + size
            self._check("client_bytes_in_flight", mine, self._limits.client_bytes_in_flight, "this client")
            self._add(client, size)
        return size

    def hold_anyway(self, client: str, size: int) -> int:
        """Count a message that is there already and cannot be refused; how many bytes ``release`` is to be told."""
        if size < COUNTED_BYTES:
            return 0
        with self._lock:
            self._add(client, size)
        return size

    def has_room(self, client: str, size: int) -> bool:
        """Whether a message of so many bytes would not be refused now."""
        limits = self._limits
        return (
            self.total + size <= limits.bytes_in_flight
            and self._by_client[client] + size <= limits.client_bytes_in_flight
        )

    def keep(self, call: Call, size: int) -> None:
        """Count what the rest of a call's responses is made of, until the call ends. Raises ``Busy``."""
        held = self.hold(call.client, size)
        if held and not call.add_callback(partial(self.release, call.client, held)):
            self.release(call.client, held)

    @contextmanager
    def holding(self, client: str, size: int) -> Iterator[None]:
        """Count so many bytes while it lasts. Raises ``Busy``."""
        held = self.hold(client, size)
        try:
            yield
        finally:
            self.release(client, held)

    def _add(self, client: str, size: int) -> None:
        self._by_client[client] += size
        self.total += size

    def release(self, client: str, size: int) -> None:
        """Say that so many bytes are held no longer."""
        if size:
            with self._lock:
                self._add(client, -size)
                if not self._by_client[client]:
                    del self._by_client[client]

    def _check(self, name: str, size: int, most: int, whose: str) -> None:
        if size > most:
            raise Busy(
                f"large messages of {whose} would take {size} bytes at a time, at most {most} are taken",
                hint=f"send fewer at a time; {name} may be raised where the daemon is started",
                metadata={"limit": name, "value": str(most)},
            )
