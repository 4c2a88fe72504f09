"""Equal entries told apart from different ones: columns numbered by their distinct values."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from symd.index.format import Column
from symd.model.columns import I64

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


def grouped(*columns: Column) -> Groups:
    """Entries that are equal in all ``columns``. Groups are ordered as their entries are, the first column foremost.

    A stable sort is the fast one here: what is numbered through the text is nearly sorted already.
    """
    key = combined(*columns)
    order = np.argsort(key, kind="stable")
    first = runs(key[order])
    number = np.empty(len(key), np.int64)
    number[order] = np.repeat(np.arange(len(first)), np.diff(first, append=len(key)))
    return Groups(order, first, number)


def runs(*columns: Column) -> I64:
    """Where each run of equal entries begins."""
    changes = np.zeros(len(columns[0]), np.bool_)
    changes[:1] = True
    for column in columns:
        changes[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changes)


def numbered(values: Column) -> tuple[I64, I64]:
    """(the distinct values in order, the number of each entry among them)."""
    distinct = np.sort(values, kind="stable")
    distinct = distinct[runs(distinct)]
    return distinct, np.searchsorted(distinct, values)


def combined(*columns: Column) -> I64:
    """One number for each entry, equal where all ``columns`` are, and ordered as they are, the first one foremost."""
    key, span = np.zeros(len(columns[0]), np.int64), 1
    if not len(key):
        return key
    for column in columns:
        low, width = column.min(), int(column.max()) - int(column.min()) + 1
        if span * width >= _ROOM:
            distinct, column = numbered(column)  # noqa: PLW2901 - the same column, in smaller numbers
            low, width = column.min(), len(distinct)
        if span * width >= _ROOM:
            distinct, key = numbered(key)
            span = len(distinct)
        key = key * width + (column - low).astype(np.int64)
        span *= width
    return key
