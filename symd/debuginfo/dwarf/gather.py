"""Reads numbers at many positions of one byte string at once."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from symd.model import U8, U64

Positions = NDArray[np.signedinteger[Any]]
_LAST_BYTE = re.compile(b"[\x00-\x7f]")


def unsigned_at(data: U8, at: Positions, size: int) -> U64:
    """Little-endian numbers of ``size`` bytes at ``at``; the caller has checked that they lie inside."""
    value = data[at].astype(np.uint64)
    for number in range(1, size):
        value |= data[at + number].astype(np.uint64) << np.uint64(8 * number)
    return value


def uleb_at(data: U8, at: Positions) -> tuple[U64, Positions]:
    """Unsigned LEB128 at ``at``, modulo 2**64, and the position behind each.

    The caller has checked that each ends inside ``data``.
    """
    first = data[at]
    value = (first & 0x7F).astype(np.uint64)
    behind = at + 1
    more = np.flatnonzero(first & 0x80)
    shift = 7
    while more.size:
        byte = data[behind[more]]
        if shift < 64:
            value[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            behind[more] += 1
            more = more[byte >= 0x80]
            shift += 7
        else:
            _pass_rest(data, behind, more)
            break
    return value, behind


def _pass_rest(data: U8, behind: Positions, more: Positions) -> None:
    """Move past the bytes of overlong numbers, whose value is settled."""
    for number in more.tolist():
        last = _LAST_BYTE.search(data.data, int(behind[number]))
        behind[number] = last.end() if last else len(data)


def sleb_at(data: U8, at: Positions) -> tuple[U64, Positions]:
    """Signed LEB128 at ``at`` as two's complement modulo 2**64, and the position behind each."""
    value, behind = uleb_at(data, at)
    bits = 7 * (behind - at)
    negative = (data[behind - 1] & 0x40).astype(bool) & (bits < 64)
    fill = np.left_shift(np.uint64(0xFFFFFFFFFFFFFFFF), np.where(negative, bits, 0).astype(np.uint64))
    return np.where(negative, value | fill, value), behind
