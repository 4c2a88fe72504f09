"""Reads numbers at many positions of one byte string at once."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from symd.model.columns import U8, U64

Positions = NDArray[np.signedinteger[Any]]
Scalar = TypeVar("Scalar", bound=np.generic)
_LAST_BYTE = re.compile(b"[\x00-\x7f]")
_NUMBERS_READ_WHOLE = 500
"""Up to so many numbers are read with all of their bytes at once; of more, one byte of each at a time is faster."""
_ROWS_PER_REPEAT = 8
"""Stretches of so many rows on average are repeated by NumPy; for shorter ones looking every row up is faster."""
_NUMBERS_PER_LONGER_ONE = 3
"""Where at least one of so many numbers has another byte, reading another byte of all of them is faster than choosing.
"""
_LEB128_BYTES = 10
"""A LEB128 of 64 bits takes no more."""


def unsigned_at(data: U8, at: Positions, size: int) -> U64:
    """Little-endian numbers of ``size`` bytes at ``at``; the caller has checked that they lie inside."""
    if len(at) < _NUMBERS_READ_WHOLE and size in (2, 4, 8):
        numbers: U64 = data.take(at[:, None] + np.arange(size)).view(f"<u{size}")[:, 0].astype(np.uint64)
        return numbers
    value = data.take(at).astype(np.uint64)
    for number in range(1, size):
        value |= data.take(at + number).astype(np.uint64) << np.uint64(8 * number)
    return value


def uleb_at(data: U8, at: Positions) -> tuple[U64, Positions]:
    """Unsigned LEB128 at ``at``, modulo 2**64, and the position after each.

    The caller has checked that each ends inside ``data``.
    """
    return _uleb_at(data, at, _LEB128_BYTES)


def _uleb_at(data: U8, at: Positions, longest: int) -> tuple[U64, Positions]:
    first = data.take(at)
    value = (first & 0x7F).astype(np.uint64)
    goes_on = first >= 0x80
    count = np.count_nonzero(goes_on)
    if _NUMBERS_PER_LONGER_ONE * count > len(at) and longest > 1:
        # Numbers of one byte are read again, as their own rest.
        rest, after = _uleb_at(data, at + goes_on, longest - 1)
        value |= rest << (goes_on * np.uint64(7))
        return value, after
    after = at + 1
    if count:
        more = np.flatnonzero(goes_on)
        if longest > 1:
            rest, after[more] = _uleb_at(data, after.take(more), longest - 1)
            value[more] |= rest << np.uint64(7)
        else:
            _pass_rest(data, after, more)
    return value, after


def _pass_rest(data: U8, after: Positions, more: Positions) -> None:
    """Move past the bytes of overlong numbers, whose value is settled."""
    for number in more.tolist():
        last = _LAST_BYTE.search(data.data, int(after[number]))
        after[number] = last.end() if last else len(data)


def sleb_at(data: U8, at: Positions) -> tuple[U64, Positions]:
    """Signed LEB128 at ``at`` as two's complement modulo 2**64, and the position after each."""
    value, after = uleb_at(data, at)
    # Bits above the last one read; up to all 64 of them, where the sign bit stands in bit 63 or was cut off.
    above = 64 - 7 * (after - at)
    shift = np.maximum(above, 0)
    signed = (value << shift.view(np.uint64)).view(np.int64) >> shift
    return signed.view(np.uint64), after


def spans(first: Positions, length: Positions) -> tuple[Positions, Positions]:
    """Every number of the spans that begin at ``first``, and the number of its span."""
    after = np.cumsum(length)
    count = int(after[-1]) if len(after) else 0
    begin = after - length
    which = spread(np.arange(len(first)), begin, count)
    return np.arange(count) + (first - begin).take(which), which


def spread(values: NDArray[Scalar], first: Positions, count: int) -> NDArray[Scalar]:
    """Values of stretches of ``count`` rows -> one value a row; stretches begin at ``first``, ascending from 0, and may
    be empty."""
    if _ROWS_PER_REPEAT * len(first) < count or not count:
        return np.repeat(values, np.diff(first, append=count))
    number = np.bincount(first, minlength=count)
    np.cumsum(number, out=number)
    number -= 1
    return values.take(number[:count])
