"""Values of stretches of rows -> values of rows."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.signedinteger[Any]]
Scalar = TypeVar("Scalar", bound=np.generic)
_ROWS_PER_REPEAT = 8
"""Stretches of so many rows on average are repeated by NumPy; for shorter ones looking every row up is faster."""


def spread(values: NDArray[Scalar], first: Positions, count: int) -> NDArray[Scalar]:
    """Values of stretches of ``count`` rows -> one value a row; stretches begin at ``first``, ascending from 0, and may
    be empty."""
    if _ROWS_PER_REPEAT * len(first) < count or not count:
        return np.repeat(values, np.diff(first, append=count))
    number = np.bincount(first, minlength=count)
    np.cumsum(number, out=number)
    number -= 1
    return values.take(number[:count])
