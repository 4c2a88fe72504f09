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
_FEW = 500
"""So few numbers are read with all of their bytes at once; of more, each byte's column is faster alone."""
_LONG = 8
"""Stretches from this length on are repeated as fast as they are looked up."""
_MANY = 3
"""If one of so many numbers goes on, reading all of them is as fast as choosing those that do."""
_LONGEST = 10
"""Bytes of a LEB128 of 64 bits."""


def unsigned_at(data: U8, at: Positions, size: int) -> U64:
    """Little-endian numbers of ``size`` bytes at ``at``; the caller has checked that they lie inside."""
    if len(at) < _FEW and size in (2, 4, 8):
        numbers: U64 = data.take(at[:, None] + np.arange(size)).view(f"<u{size}")[:, 0].astype(np.uint64)
        return numbers
    value = data.take(at).astype(np.uint64)
    for number in range(1, size):
        value |= data.take(at + number).astype(np.uint64) << np.uint64(8 * number)
    return value


def uleb_at(data: U8, at: Positions) -> tuple[U64, Positions]:
    """Unsigned LEB128 at ``at``, modulo 2**64, and the position behind each.

    The caller has checked that each ends inside ``data``.
    """
    return _uleb_at(data, at, _LONGEST)


def _uleb_at(data: U8, at: Positions, longest: int) -> tuple[U64, Positions]:
    first = data.take(at)
    value = (first & 0x7F).astype(np.uint64)
    goes_on = first >= 0x80
    count = np.count_nonzero(goes_on)
    if _MANY * count > len(at) and longest > 1:
        # Numbers of one byte are read again, as their own rest.
        rest, behind = _uleb_at(data, at + goes_on, longest - 1)
        value |= rest << (goes_on * np.uint64(7))
        return value, behind
    behind = at + 1
    if count:
        more = np.flatnonzero(goes_on)
        if longest > 1:
            rest, behind[more] = _uleb_at(data, behind.take(more), longest - 1)
            value[more] |= rest << np.uint64(7)
        else:
            _pass_rest(data, behind, more)
    return value, behind


def _pass_rest(data: U8, behind: Positions, more: Positions) -> None:
    """Move past the bytes of overlong numbers, whose value is settled."""
    for number in more.tolist():
        last = _LAST_BYTE.search(data.data, int(behind[number]))
        behind[number] = last.end() if last else len(data)


def sleb_at(data: U8, at: Positions) -> tuple[U64, Positions]:
    """Signed LEB128 at ``at`` as two's complement modulo 2**64, and the position behind each."""
    value, behind = uleb_at(data, at)
    # Bits above the last one read; up to all 64 of them, where the sign bit stands in bit 63 or was cut off.
    above = 64 - 7 * (behind - at)
    shift = np.maximum(above, 0)
    signed = (value << shift.view(np.uint64)).view(np.int64) >> shift
    return signed.view(np.uint64), behind


def spans(first: Positions, length: Positions) -> tuple[Positions, Positions]:
    """Every number of the spans that begin at ``first``, and the number of its span."""
    behind = np.cumsum(length)
    count = int(behind[-1]) if len(behind) else 0
    begin = behind - length
    which = spread(np.arange(len(first)), begin, count)
    return np.arange(count) + (first - begin).take(which), which


def spread(values: NDArray[Scalar], first: Positions, count: int) -> NDArray[Scalar]:
    """Values of stretches of ``count`` rows -> one value a row; stretches begin at ``first``, ascending from 0, and may
    be empty."""
    if _LONG * len(first) < count or not count:
        return np.repeat(values, np.diff(first, append=count))
    number = np.bincount(first, minlength=count)
    np.cumsum(number, out=number)
    number -= 1
    return values.take(number[:count])
