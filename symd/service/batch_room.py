"""A limit on how many addresses of batches are answered at the same time, over all threads. The memory that a batch takes while it
is answered follows from its addresses, not from the size of its request: it is several times the message, and few
bytes of a request may stand for many addresses."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

COUNTED_ADDRESSES: Final = 1 << 14
"""A smaller batch is not counted, and waits for none."""


class BatchRoom:
    """For ``most`` addresses at a time; a batch of more is answered while there is no other. Safe to use from several
    threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._turns: deque[object] = deque()
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, count: int) -> Iterator[None]:
        """Wait until there is room for a batch of ``count`` addresses, behind those that came before, and keep it."""
        if count < COUNTED_ADDRESSES:
            yield
            return
        turn = object()
        with self._changed:
            self._turns.append(turn)
            self._changed.wait_for(lambda: self._turns[0] is turn and self._fits(count))
            self._turns.popleft()
            self._taken += count
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._taken -= count
                self._changed.notify_all()

    def _fits(self, count: int) -> bool:
        return not self._taken or self._taken + count <= self._most
