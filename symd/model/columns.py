"""The column types of every room: NumPy arrays of integers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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
    first = np.ones(len(ordered), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def no_numbers(count: int) -> U32:
    """A column of so many zeros."""
    return np.zeros(count, np.uint32)


def in_groups(numbers: NDArray[Any]) -> Iterator[tuple[int, I64]]:
    """Each distinct number with the positions where it stands."""
    order = np.argsort(numbers, kind="stable")
    edges = np.flatnonzero(np.diff(numbers[order])) + 1
    for part in np.split(order, edges) if len(numbers) else ():
        yield int(numbers[part[0]]), part
