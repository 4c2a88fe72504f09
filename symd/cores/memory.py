"""The memory of a dump, asked for in one go: what reads it runs twice, the first time to see what it needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

Range = tuple[int, int]
"""An address of global memory and a size in bytes."""
ReadMemory = Callable[[Sequence[Range]], Sequence[bytes | None]]
"""The content of some ranges; None for one that the dump does not have all of."""
MOST_RANGES = 200_000


class DumpContents(NamedTuple):
    """What a dump is asked for: ``memory`` at addresses of global memory, ``positions`` at positions of the file."""

    memory: ReadMemory
    positions: ReadMemory


class PendingMemory:
    """``read`` asks the dump."""

    def __init__(self, read: ReadMemory) -> None:
        self._read = read
        self._known: dict[Range, bytes | None] = {}
        self._wanted: dict[Range, None] = {}

    def get(self, ranges: Sequence[Range]) -> bytes | None:
        """What the ranges hold, one after another; None where that is not in the dump, or not fetched yet."""
        parts = [self._known.get(each) for each in ranges]
        unknown = [each for each in ranges if each not in self._known]
        if len(self._wanted) + len(unknown) <= MOST_RANGES:
            self._wanted.update(dict.fromkeys(unknown))
        found = [part for part in parts if part is not None]
        return b"".join(found) if len(found) == len(parts) else None

    def fetch(self) -> bool:
        """Ask for what was wanted in vain; whether there was something to ask for."""
        wanted, self._wanted = list(self._wanted), {}
        if wanted:
            self._known.update(zip(wanted, self._read(wanted), strict=True))
        return bool(wanted)
