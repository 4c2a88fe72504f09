"""What one module may cost while it is opened and decoded: how many elements and code objects, how deep, how many bytes
after decompression, how many line rows and debugging entries."""

from __future__ import annotations

from copy import copy

from symd.config import Limits
from symd.errors import LimitExceeded

_ALWAYS = 1_000_000
"""Line rows and debugging entries that any file may have."""
_HEADER_ENTRIES = 32
"""A unit or a line table of nothing takes as long as so many entries."""


class Budget:
    """Counts what opening one module has spent so far; every excess is a ``LimitExceeded`` that names the limit.

    ``containers.unpack`` counts what it opens and checks the depth. A reader counts the elements of a table before it walks
    it, where the file alone says how many there are, and charges what it is about to decompress; slices of the file
    itself cost nothing, and are checked against the file's length by the reader. A reader that needs none of this calls
    its argument ``_budget``.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._objects = 0
        self._expanded = 0
        self._shared_facts = 0
        self._core_waves = 0
        self._core_call_frames = 0

    def check_depth(self, depth: int, where: str) -> None:
        """``depth`` containers are open around ``where``."""
        if depth > self.limits.nesting_depth:
            raise _over("nesting_depth", self.limits.nesting_depth, where)

    def count_elements(self, where: str, number: int = 1) -> None:
        """``number`` more elements or code objects were found."""
        self._objects += number
        if self._objects > self.limits.object_count:
            raise _over("object_count", self.limits.object_count, where)

    def count_shared_facts(self, number: int, where: str) -> None:
        """A kernel has ``number`` arguments and attributes because another one of the same code has them."""
        self._shared_facts += number
        if self._shared_facts > self.limits.shared_facts:
            raise _over("shared_facts", self.limits.shared_facts, where)

    def count_core_waves(self, where: str) -> None:
        """A GPU core dump has one saved wave more, or an area without any."""
        self._core_waves += 1
        if self._core_waves > self.limits.core_waves:
            raise _over("core_waves", self.limits.core_waves, where)

    def count_core_call_frame(self, where: str) -> None:
        """A code object of a GPU core dump has one entry of call frame information more."""
        self._core_call_frames += 1
        if self._core_call_frames > self.limits.core_call_frames:
            raise _over("core_call_frames", self.limits.core_call_frames, where)

    def charge_expansion(self, stored: int, expanded: int, where: str) -> None:
        """``stored`` compressed bytes are about to become ``expanded`` bytes."""
        self._expanded += expanded
        if self._expanded > self.limits.expansion:
            raise _over("expansion", self.limits.expansion, where)
        if expanded > max(stored, 64) * self.limits.expansion_ratio:
            raise _over("expansion_ratio", self.limits.expansion_ratio, where)


class DebugBudget:
    """Counts the line rows and debugging entries that were decoded of one module. Compressed sections hold hundreds of
    them a byte, and each takes memory; so their number is bounded by the size of the file as well.

    ``stored`` is that size in bytes.
    """

    def __init__(self, limits: Limits, stored: int) -> None:
        by_ratio = max(_ALWAYS, stored * limits.debug_ratio)
        self._most = min(limits.debug_entries, by_ratio)
        self._limit = "debug_entries" if limits.debug_entries <= by_ratio else "debug_ratio"
        self._value: int = getattr(limits, self._limit)
        self._count = 0

    def check(self, number: int, where: str) -> None:
        """``number`` more may be about to be decoded. Raises LimitExceeded."""
        if self._count + number > self._most:
            what = f"has more than {self._most} line rows and debugging entries ({self._limit} = {self._value})"
            raise exceeded(self._limit, self._value, what, where)

    def count(self, number: int, where: str) -> None:
        """``number`` more are decoded."""
        self.check(number, where)
        self._count += number

    def trial(self) -> DebugBudget:
        """Another one that has counted as much, for work that may have to be done again otherwise."""
        return copy(self)

    def accept(self, trial: DebugBudget) -> None:
        """What ``trial`` has counted."""
        self._count = trial._count

    def count_headers(self, number: int, where: str) -> None:
        """``number`` units or line tables, each of which costs as much as many entries."""
        self.count(number * _HEADER_ENTRIES, where)


def exceeded(name: str, value: int, what: str, where: str = "") -> LimitExceeded:
    """The error of a file that passes the limit ``name``; ``what`` is a sentence that says so."""
    hint = f"raise the limit {name} if the file is to be trusted"
    return LimitExceeded(what, where=where, hint=hint, metadata={"limit": name, "value": str(value)})


def _over(name: str, value: int, where: str) -> LimitExceeded:
    return exceeded(name, value, f"passes the limit {name} = {value}", where)
