"""Strings told apart by number."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import count

import numpy as np

from symd.model.columns import U32


class Interner:
    """Strings with numbers, in the order in which they were added; number 0 is ""."""

    def __init__(self) -> None:
        self._numbers: defaultdict[str, int] = defaultdict(count().__next__)
        self.add("")

    def add(self, text: str) -> int:
        return self._numbers[text]

    def add_all(self, texts: Iterable[str], size: int = -1) -> U32:
        """The numbers of ``texts``, of which there are ``size``."""
        return np.fromiter(map(self._numbers.__getitem__, texts), np.uint32, size)

    @property
    def values(self) -> list[str]:
        """By number."""
        return list(self._numbers)
