"""The column types of every room, which are NumPy arrays of integers, and their entries grouped and numbered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

U8 = NDArray[np.uint8]
U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]


def distinct(values: NDArray[Any]) -> NDArray[Any]:
    """The different entries of a column in their order: ``np.unique``, without the masked arrays that it imports, which
    takes as long as a small file."""
    ordered = np.sort(values)
    return ordered[runs(ordered)]


def no_numbers(count: int) -> U32:
    """A column of so many zeros."""
    return np.zeros(count, np.uint32)


def in_groups(numbers: NDArray[Any]) -> Iterator[tuple[int, I64]]:
    """Each distinct number with the positions where it stands."""
    order = np.argsort(numbers, kind="stable")
    for part in np.split(order, runs(numbers[order])[1:]) if len(numbers) else ():
        yield int(numbers[part[0]]), part


_ROOM = 1 << 62


class Groups(NamedTuple):
    """Entries by what they say: ``order`` has equal ones together, each group beginning at an entry of ``first`` in it
    and in itself in the order of the entries; ``number`` is the group of each entry."""

    order: I64
    first: I64
    number: I64

    @property
    def sample(self) -> I64:
        """An entry of each group."""
        return self.order[self.first]


def grouped(*columns: NDArray[Any]) -> Groups:
    """Entries that are equal in all ``columns``. Groups are ordered as their entries are, the first column foremost.

    A stable sort is the fast one here: what is numbered through the text is nearly sorted already.
    """
    key = combined(*columns)
    order = np.argsort(key, kind="stable")
    first = runs(key[order])
    number = np.empty(len(key), np.int64)
    number[order] = np.repeat(np.arange(len(first)), np.diff(first, append=len(key)))
    return Groups(order, first, number)


def runs(*columns: NDArray[Any]) -> I64:
    """Where each run of equal entries begins."""
    changes = np.zeros(len(columns[0]), np.bool_)
    changes[:1] = True
    for column in columns:
        changes[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changes)


def among(values: I64, some: I64) -> NDArray[np.bool_]:
    """Whether each value is one of ``some``, as np.isin says it, which imports numpy.ma in as long as a small module's
    index takes."""
    if not len(some):
        return np.zeros(len(values), np.bool_)
    some = np.sort(some)
    found: NDArray[np.bool_] = some[np.minimum(np.searchsorted(some, values), len(some) - 1)] == values
    return found


def numbered(values: NDArray[Any]) -> tuple[I64, I64]:
    """(the distinct values in order, the number of each entry among them)."""
    known = np.sort(values, kind="stable")
    known = known[runs(known)]
    return known, np.searchsorted(known, values)


def combined(*columns: NDArray[Any]) -> I64:
    """One number for each entry, equal where all ``columns`` are, and ordered as they are, the first one foremost."""
    key, span = np.zeros(len(columns[0]), np.int64), 1
    if not len(key):
        return key
    for column in columns:
        low, width = column.min(), int(column.max()) - int(column.min()) + 1
        if span * width >= _ROOM:
            known, column = numbered(column)  # noqa: PLW2901 - the same column, in smaller numbers
            low, width = column.min(), len(known)
        if span * width >= _ROOM:
            known, key = numbered(key)
            span = len(known)
        key = key * width + (column - low).astype(np.int64)
        span *= width
    return key


class Interner:
    """Strings with numbers, in the order in which they were added; number 0 is ""."""

    def __init__(self) -> None:
        self._numbers: defaultdict[str, int] = defaultdict(count().__next__)
        self._numbers[""]

    def add_all(self, texts: Iterable[str], size: int = -1) -> U32:
        """The numbers of ``texts``, of which there are ``size``."""
        return np.fromiter(map(self._numbers.__getitem__, texts), np.uint32, size)

    @property
    def values(self) -> list[str]:
        """The strings, by number."""
        return list(self._numbers)
