"""Strings told apart by number."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain, count

import numpy as np

from symd.model.columns import U32

_NEVER = 255
"""A kind of strings that there is not."""


class Interner:
    """Strings with numbers, in the order in which they were added; number 0 is "".

    Where the code objects of a module come in portions, ``final`` has the numbers that strings would have if those of all portions had been
    added at once: each portion adds the same kinds of strings in the same order, one kind at a time."""

    def __init__(self) -> None:
        self._numbers: defaultdict[str, int] = defaultdict(count().__next__)
        self._numbers[""]
        self._added: list[U32] = []
        self._first_kind = np.zeros(0, np.uint8)
        self._first_met: list[list[U32]] = []

    def add_all(self, texts: Iterable[str], size: int = -1) -> U32:
        """The numbers of ``texts``, of which there are ``size``."""
        numbers = np.fromiter(map(self._numbers.__getitem__, texts), np.uint32, size)
        self._added.append(numbers)
        return numbers

    @property
    def values(self) -> list[str]:
        """The strings, by number."""
        return list(self._numbers)

    def begin_portion(self) -> None:
        """Note which strings of the last one are met for the first time in each kind or in an earlier one, in their order."""
        missing = len(self._numbers) - len(self._first_kind)
        self._first_kind = np.append(self._first_kind, np.full(missing, _NEVER, np.uint8))
        self._first_met += [[] for _ in self._added[len(self._first_met) :]]
        for kind, numbers in enumerate(self._added):
            distinct, at = np.unique(numbers, return_index=True)
            new = self._first_kind[distinct] > kind
            self._first_kind[distinct[new]] = kind
            self._first_met[kind].append(distinct[new][np.argsort(at[new])])
        self._added = []

    def final(self) -> U32:
        """The number that each string has in the end, by the number that it has now."""
        self.begin_portion()
        found = np.zeros(len(self._numbers), np.uint32)
        known = np.zeros(len(found), np.bool_)
        known[0] = True
        count = 1
        for numbers in chain.from_iterable(self._first_met):
            new = numbers[~known[numbers]]
            known[new] = True
            found[new] = np.arange(count, count + len(new), dtype=np.uint32)
            count += len(new)
        return found
