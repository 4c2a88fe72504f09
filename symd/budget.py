"""What one module may cost while it is opened: how many elements and code objects, how deep, how many bytes after
decompression."""

from __future__ import annotations

from symd.config import Limits
from symd.errors import LimitExceeded


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

    def check_depth(self, depth: int, where: str) -> None:
        """``depth`` containers are open around ``where``."""
        if depth > self.limits.nesting_depth:
            raise self._over("nesting_depth", self.limits.nesting_depth, where)

    def count_elements(self, where: str, number: int = 1) -> None:
        """``number`` more elements or code objects were found."""
        self._objects += number
        if self._objects > self.limits.object_count:
            raise self._over("object_count", self.limits.object_count, where)

    def charge_expansion(self, stored: int, expanded: int, where: str) -> None:
        """``stored`` compressed bytes are about to become ``expanded`` bytes."""
        self._expanded += expanded
        if self._expanded > self.limits.expansion:
            raise self._over("expansion", self.limits.expansion, where)
        if expanded > max(stored, 64) * self.limits.expansion_ratio:
            raise self._over("expansion_ratio", self.limits.expansion_ratio, where)

    @staticmethod
    def _over(name: str, value: int, where: str) -> LimitExceeded:
        hint = f"raise the limit {name} if the file is to be trusted"
        return LimitExceeded(
            f"passes the limit {name} = {value}", where=where, hint=hint, metadata={"limit": name, "value": str(value)}
        )
