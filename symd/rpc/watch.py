"""A watch's call, which goes on after its position where its daemon is lost."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Any, Final

_STOOD_SECONDS: Final = 10.0


class OpenWatch:
    """The call of a watch and those that go on after it; the first is made at once. ``begin`` makes one after a position, which each message
    has; it is empty where the watch could not go on from: what was told since the last is told again then."""

    def __init__(self, begin: Callable[[str], Any], position: str) -> None:
        self.is_cancelled = False
        self._begin, self._position = begin, position
        self._since: set[bytes] = set()
        self._begun = time.monotonic()
        self._call = begin(position)

    def cancel(self) -> None:
        """End it. From any thread."""
        self.is_cancelled = True
        self._call.cancel()

    def call(self) -> Any:
        """The call that goes on."""
        if self._call.done():
            self._begun = time.monotonic()
            self._call = self._begin(self._position)
        if self.is_cancelled:
            self._call.cancel()
        return self._call

    def is_new(self, message: Any) -> bool:
        """Whether the next message was not told yet."""
        if message.position:
            self._position, self._since = message.position, set()
            return True
        name = hashlib.blake2b(message.SerializeToString(deterministic=True), digest_size=16).digest()
        if name in self._since:
            return False
        self._since.add(name)
        return True

    def stood(self) -> bool:
        """Whether the call was open so long that it had its daemon, though nothing happened that it could tell."""
        return time.monotonic() - self._begun >= _STOOD_SECONDS
