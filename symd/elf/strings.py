"""String tables: NUL-terminated UTF-8 strings, named by the offset of their first byte.

Source: System V ABI, chapter 4, "String Table"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from symd.errors import Malformed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FEW_OFFSETS = 64


def string_at(table: bytes, offset: int) -> str:
    """The string at ``offset``; "" where that leaves the table."""
    end = table.find(0, offset)
    return str(table[offset : end if end >= 0 else len(table)], "utf-8", "replace")


def strings_at(table: bytes, offsets: Sequence[int], where: str) -> list[str]:
    """The strings at some offsets. Strings may share their ends: n offsets into one string of n bytes hold n * n / 2. Raises
    Malformed where that takes far more memory than the table."""
    known: dict[int, str] = {}
    left = _longest_together(table)
    text = table.decode("ascii") if table.isascii() else ""
    for offset in set(offsets):
        end = text.find("\0", offset)
        found = known[offset] = text[offset:end] if end >= 0 else string_at(table, offset)
        left -= len(found)
        if left < 0:
            raise _overlapping(where)
    return [known[offset] for offset in offsets]


def bulk_strings_at(table: bytes, offsets: NDArray[np.uint32], where: str) -> list[str]:
    """As ``strings_at``, for so many offsets that it pays to find the ends of all strings at once."""
    if len(offsets) <= _FEW_OFFSETS:
        return strings_at(table, offsets.tolist(), where)
    import numpy as np  # noqa: PLC0415 - slow to import, and who asks for sections alone needs none of it

    starts, which = np.unique(offsets, return_inverse=True)
    starts = np.minimum(starts.astype(np.int64), len(table))
    ends = np.append(np.flatnonzero(np.frombuffer(table, np.uint8) == 0), len(table))
    ends = ends[np.searchsorted(ends, starts)]
    if int((ends - starts).sum()) > _longest_together(table):
        raise _overlapping(where)
    pairs = zip(starts.tolist(), ends.tolist(), strict=True)
    if table.isascii():
        text = table.decode("ascii")
        known = [text[start:end] for start, end in pairs]
    else:
        known = [str(table[start:end], "utf-8", "replace") for start, end in pairs]
    return [known[number] for number in which.tolist()]


def _longest_together(table: bytes) -> int:
    """Bytes that the distinct strings of a table may have together. Real tables share tails, and stay far below."""
    return 16 * len(table) + 65536


def _overlapping(where: str) -> Malformed:
    return Malformed("the strings of its table overlap and are more than 16 times as long as the table", where=where)
