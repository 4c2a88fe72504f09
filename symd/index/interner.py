"""Strings told apart by number."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import count

import numpy as np

from symd.model.columns import U32

_NEVER = 255
"""A kind of strings that there is not."""


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


class PortionStrings(Interner):
    """The strings of a module whose code objects come in portions. Until all are there a string has a number of its own;
    ``final`` has those that an ``Interner`` would have given which was handed the strings of all portions at once: each
    portion adds the same kinds of strings in the same order, one kind at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._kind = 0
        self._first_kind = np.zeros(0, np.uint8)
        self._first_met: list[list[U32]] = []

    def begin_portion(self) -> None:
        self._kind = 0

    def add_all(self, texts: Iterable[str], size: int = -1) -> U32:
        numbers = super().add_all(texts, size)
        self._note(numbers)
        self._kind += 1
        return numbers

    def _note(self, numbers: U32) -> None:
        """Which strings are met for the first time in this kind or in an earlier one, in their order."""
        if self._kind == len(self._first_met):
            self._first_met.append([])
        distinct, at = np.unique(numbers, return_index=True)
        missing = len(self._numbers) - len(self._first_kind)
        self._first_kind = np.append(self._first_kind, np.full(missing, _NEVER, np.uint8))
        new = self._first_kind[distinct] > self._kind
        self._first_kind[distinct[new]] = self._kind
        self._first_met[self._kind].append(distinct[new][np.argsort(at[new])])

    def final(self) -> U32:
        """By the number of each string that which it has in the end."""
        found = np.zeros(len(self._numbers), np.uint32)
        known = np.zeros(len(found), np.bool_)
        known[0] = True
        count = 1
        for numbers in (each for kind in self._first_met for each in kind):
            new = numbers[~known[numbers]]
            known[new] = True
            found[new] = np.arange(count, count + len(new), dtype=np.uint32)
            count += len(new)
        return found
