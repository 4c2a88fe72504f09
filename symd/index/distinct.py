"""Equal entries told apart from different ones: columns numbered by their distinct values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from symd.index.format import Column

Numbers = NDArray[np.int64]
_ROOM = 1 << 62


def runs(*columns: Column, also: Numbers | None = None) -> Numbers:
    """Where each run of equal entries begins; one begins at ``also`` in any case."""
    size = len(columns[0])
    if not size:
        return np.zeros(0, np.int64)
    changes = np.zeros(size, np.bool_)
    changes[0] = True
    for column in columns:
        changes[1:] |= column[1:] != column[:-1]
    if also is not None:
        changes[also] = True
    return np.flatnonzero(changes)


def numbered(values: Column) -> tuple[Numbers, Numbers]:
    """(the distinct values in order, the number of each entry among them)."""
    if not len(values):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    low, high = int(values.min()), int(values.max())
    if high - low > 4 * len(values) + (1 << 16):
        distinct = np.sort(values.astype(np.int64, copy=False))
        distinct = distinct[np.append(True, distinct[1:] != distinct[:-1])]
        return distinct, np.searchsorted(distinct, values)
    present = np.zeros(high - low + 1, np.bool_)
    at = values.astype(np.int64) - low
    present[at] = True
    table = np.cumsum(present) - 1
    return np.flatnonzero(present) + low, table[at]


def combined(*columns: Column) -> Numbers:
    """One number for each entry, equal where all ``columns`` are, and ordered as they are, the first one foremost."""
    key, span = np.zeros(len(columns[0]), np.int64), 1
    if not len(key):
        return key
    for column in columns:
        low = int(column.min())
        width = int(column.max()) - low + 1
        if span * width >= _ROOM:
            distinct, key = numbered(key)
            span = len(distinct)
        key = key * width + (column.astype(np.int64) - low)
        span *= width
    return key
