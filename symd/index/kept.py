"""Columns that wait to be written, compressed: so the tables of a large module take a part of the memory that they would
take side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from symd.index.format import Column, narrow
from symd.index.packing import signed_type

_LEVEL = -3
"""Zstandard's: what waits is read once or twice, so that speed counts more than size."""
_WRAP = 1 << 64
_BLOCK = 40 << 20
"""Bytes of memory of which small pieces are taken; glibc maps so much by itself (mallopt(3), M_MMAP_THRESHOLD). Pieces that stay
where arrays come and go would leave holes that nothing fits into."""

_TOGETHER = 1 << 17
"""Entries that are worked on together: what is made of them fits the caches."""


class Arena:
    """Where columns are kept."""

    def __init__(self) -> None:
        import zstandard  # noqa: PLC0415 - few modules are large

        self._compress = zstandard.ZstdCompressor(level=_LEVEL).compress
        self._decompress = zstandard.ZstdDecompressor().decompress
        self._block = memoryview(b"")
        self._free = 0

    def put(self, values: Column) -> memoryview:
        """Their bytes, compressed."""
        data = self._compress(np.ascontiguousarray(values).data)
        if self._free + len(data) > len(self._block):
            self._block, self._free = np.empty(max(_BLOCK, len(data)), np.uint8).data, 0
        place = self._block[self._free : self._free + len(data)]
        place[:] = data
        self._free += len(data)
        return place

    def taken(self, data: memoryview, dtype: np.dtype[Any]) -> Column:
        """What was put, read-only."""
        return np.frombuffer(self._decompress(data), dtype)


class Kept:
    """Non-negative integers."""

    __slots__ = ("_arena", "_data", "_dtype", "count", "highest")

    def __init__(self, values: Column, arena: Arena) -> None:
        values = narrow(values)
        self.count, self.highest = len(values), int(values.max(initial=0))
        self._dtype, self._data, self._arena = values.dtype, arena.put(values), arena

    def values(self) -> Column:
        """They, read-only."""
        return self._arena.taken(self._data, self._dtype)


class KeptDifferences:
    """Non-negative integers as differences from entry to entry, which is how tables are packed."""

    __slots__ = ("_arena", "_data", "_dtype", "count", "first", "high", "last", "low")

    def __init__(self, values: Column, arena: Arena, above: int = 0) -> None:
        """``above`` is added to each of ``values``."""
        self.count = len(values)
        self.first, self.last = (int(values[0]) + above, int(values[-1]) + above) if self.count else (0, 0)
        parts = [*_steps(values)]
        self.low = min(0, *(int(part.min(initial=0)) for part in parts))
        self.high = max(0, *(int(part.max(initial=0)) for part in parts))
        steps = np.concatenate(parts, dtype=signed_type(self.low, self.high), casting="unsafe")
        self._dtype, self._data, self._arena = steps.dtype, arena.put(steps), arena

    def values(self) -> Column:
        """They, as the 64 bits that they have."""
        found = np.cumsum(self._arena.taken(self._data, self._dtype), dtype=np.int64)
        found += np.uint64(self.first).view(np.int64)
        return found.view(np.uint64)

    def after(self, first: int, dtype: np.dtype[Any]) -> Column:
        """The differences, the first of which is ``first``."""
        steps = self._arena.taken(self._data, self._dtype).astype(dtype)
        steps[:1] = first
        return steps


def _steps(values: Column) -> Iterator[Column]:
    """How far each entry is from the one before, the first from itself, some entries after the other, each time as narrow as
    they are."""
    before = values[:1].astype(np.int64)
    for first in range(0, max(len(values), 1), _TOGETHER):
        whole = values[first : first + _TOGETHER].astype(np.int64)
        steps = np.diff(whole, prepend=before)
        yield steps.astype(signed_type(int(steps.min(initial=0)), int(steps.max(initial=0))), copy=False)
        before = whole[-1:]


def packed_table(columns: Sequence[Iterable[KeptDifferences]]) -> tuple[int, Iterator[bytes | Column]]:
    """(size, content) of the frame that ``packing.pack_table`` makes of these columns, each of which is in pieces."""
    tables = [_Differences([piece for piece in pieces if piece.count]) for pieces in columns]
    return sum(each.size for each in tables), (part for each in tables for part in each.parts())


class _Differences:
    """One column of a packed table: ``size`` bytes."""

    def __init__(self, pieces: Sequence[KeptDifferences]) -> None:
        before = [0, *(piece.last for piece in pieces[:-1])]
        self._pieces = pieces
        self._firsts = [_wrapped(piece.first - last) for piece, last in zip(pieces, before, strict=False)]
        low = min((0, *self._firsts, *(piece.low for piece in pieces)))
        high = max((0, *self._firsts, *(piece.high for piece in pieces)))
        self._dtype = signed_type(low, high)
        self.size = 1 + self._dtype.itemsize * sum(piece.count for piece in pieces)

    def parts(self) -> Iterator[bytes | Column]:
        yield bytes([self._dtype.itemsize])
        for piece, first in zip(self._pieces, self._firsts, strict=True):
            yield piece.after(first, self._dtype)


def _wrapped(difference: int) -> int:
    """As 64 signed bits have it."""
    return (difference + _WRAP // 2) % _WRAP - _WRAP // 2
