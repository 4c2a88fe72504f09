"""Packed columns: unsigned little-endian integers, as narrow as they go, without a Python object an entry."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from symd.errors import Malformed

Number = TypeVar("Number", bound=np.unsignedinteger[Any])

WIDTHS: dict[int, np.dtype[Any]] = {1: np.dtype("<u1"), 2: np.dtype("<u2"), 4: np.dtype("<u4"), 8: np.dtype("<u8")}

OTHER_SIDE = "use versions of symd that belong together; where they do, do not trust that daemon"

KINDS: dict[type[np.unsignedinteger[Any]], np.dtype[Any]] = {
    np.uint8: np.dtype("<u1"),
    np.uint32: np.dtype("<u4"),
    np.uint64: np.dtype("<u8"),
}


def pack(values: NDArray[Any]) -> bytes:
    """A column in the narrowest width that holds its largest value; empty when all values are 0."""
    top = int(values.max()) if len(values) else 0
    return values.astype(WIDTHS[width_of(top)], copy=False).tobytes() if top else b""


def width_of(top: int) -> int:
    """Bytes that hold ``top``: 1, 2, 4 or 8."""
    return next(width for width in WIDTHS if top < 1 << 8 * width)


def column_width(column: bytes, count: int) -> int | None:
    """Bytes of each of the ``count`` numbers in a column that is not empty; None when it is no such column."""
    width, rest = divmod(len(column), count) if count else (0, 1)
    return None if rest or width not in WIDTHS else width


def check_count(answered: int, asked: int) -> None:
    """Raises Malformed where a daemon answers more or fewer addresses than it was asked about."""
    if answered != asked:
        raise Malformed(f"{asked} addresses were asked, {answered} are answered", hint=OTHER_SIDE)


def check_below(numbers: NDArray[Any], count: int, what: str) -> None:
    """Raises ``Malformed`` where one of the numbers of ``what`` is not among the ``count`` things that there are, from 0 on."""
    top = int(numbers.max()) if len(numbers) else -1
    if top >= count:
        raise Malformed(f"there is no {what} {top}: there are {count}", hint=OTHER_SIDE)


def unpack(column: bytes, count: int, kind: type[Number]) -> NDArray[Number]:
    """The ``count`` numbers of a column as an array of ``kind``; read-only where no conversion was needed.

    Raises ``Malformed`` when the column's length is no multiple of ``count`` or its numbers are wider than ``kind``.
    """
    if not column:
        return np.zeros(count, kind)
    wanted = KINDS[kind]
    if len(column) == count * wanted.itemsize:
        return np.frombuffer(column, wanted)
    width = column_width(column, count)
    if width is None or width > wanted.itemsize:
        raise Malformed(f"a column of {len(column)} bytes does not hold {count} numbers")
    numbers: NDArray[Number] = np.frombuffer(column, WIDTHS[width]).astype(kind, copy=False)
    return numbers
