"""Columns that wait to be written: as they are, or compressed, so that the tables of a large module take a part of the memory that
they would take side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from typing import Any, NamedTuple

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


class Kept:
    """A column."""

    __slots__ = ("_column", "dtype", "entries")

    def __init__(self, column: Column) -> None:
        self._column, self.dtype, self.entries = column, column.dtype, len(column)

    def values(self) -> Column:
        """It, read-only."""
        return self._column


class Opened(Kept):
    """One that is made whenever somebody wants it."""

    __slots__ = ("_made",)

    def __init__(self, dtype: np.dtype[Any], entries: int, made: Callable[[], Column]) -> None:
        self.dtype, self.entries, self._made = dtype, entries, made

    def values(self) -> Column:
        return self._made()


class Keeper:
    """Keeps columns as they are, where all of them fit into memory."""

    def keep(self, values: Column) -> Kept:
        return Kept(values)

    def keep_ascending(self, values: Column) -> Kept:
        """The same of numbers that grow."""
        return Kept(values)


class Arena(Keeper):
    """Keeps columns compressed."""

    def __init__(self) -> None:
        import zstandard  # noqa: PLC0415 - few modules are large

        self._compress = zstandard.ZstdCompressor(level=_LEVEL).compress
        self._decompress = zstandard.ZstdDecompressor().decompress
        self._block = memoryview(b"")
        self._free = 0

    def keep(self, values: Column) -> Kept:
        data, dtype = self._put(np.ascontiguousarray(values)), values.dtype
        return Opened(dtype, len(values), lambda: np.frombuffer(self._decompress(data), dtype))

    def keep_ascending(self, values: Column) -> Kept:
        if not len(values):
            return self.keep(values)
        steps, first = self.keep(narrow(np.diff(values, prepend=values[:1]))), values[0]
        return Opened(values.dtype, len(values), lambda: np.cumsum(steps.values(), dtype=values.dtype) + first)

    def _put(self, values: Column) -> memoryview:
        data = self._compress(values.data)
        if self._free + len(data) > len(self._block):
            self._block, self._free = np.empty(max(_BLOCK, len(data)), np.uint8).data, 0
        place = self._block[self._free : self._free + len(data)]
        place[:] = data
        self._free += len(data)
        return place


class Differences:
    """Non-negative integers as differences from entry to entry, which is how tables are packed."""

    __slots__ = ("_steps", "first", "high", "last", "low")

    def __init__(self, values: Column, keeper: Keeper) -> None:
        self.first, self.last = (int(values[0]), int(values[-1])) if len(values) else (0, 0)
        parts = [_steps(values, first) for first in range(0, max(len(values), 1), _TOGETHER)]
        self.low, self.high = min(part[0] for part in parts), max(part[1] for part in parts)
        steps = parts[0][2]
        if len(parts) > 1:
            dtype = signed_type(self.low, self.high)
            steps = np.concatenate([part[2] for part in parts], dtype=dtype, casting="unsafe")
        self._steps = keeper.keep(steps)

    @property
    def count(self) -> int:
        return self._steps.entries

    def moved(self, by: int) -> Differences:
        """The same with so much added to each entry."""
        found = copy(self)
        found.first, found.last = self.first + by, self.last + by
        return found

    def values(self) -> Column:
        """They, as the 64 bits that they have."""
        found = np.cumsum(self._steps.values(), dtype=np.int64)
        found += np.uint64(self.first).view(np.int64)
        return found.view(np.uint64)

    def after(self, first: int, dtype: np.dtype[Any]) -> Column:
        """The differences, the first of which is ``first``."""
        steps = self._steps.values().astype(dtype)
        steps[:1] = first
        return steps


def _steps(values: Column, first: int) -> tuple[int, int, Column]:
    """(the lowest, the highest, all) of how far each of some entries is from the one before, the first of all from itself, as narrow as they are."""
    some = values[first : first + _TOGETHER].astype(np.int64)
    steps = np.empty_like(some)
    np.subtract(some[1:], some[:-1], out=steps[1:])
    steps[:1] = some[:1] - values[first - 1].astype(np.int64) if first else 0
    low, high = int(np.minimum.reduce(steps, initial=0)), int(np.maximum.reduce(steps, initial=0))
    return low, high, steps.astype(signed_type(low, high), copy=False)


def packed_table(columns: Sequence[Iterable[Differences]]) -> tuple[int, Iterator[bytes | Column]]:
    """(size, content) of a table that nobody searches: the differences of its columns, one column after the other, each as the width of
    its entries (one byte) and the entries. Each column is in pieces."""
    tables = [_Joined([piece for piece in pieces if piece.count]) for pieces in columns]
    return sum(each.size for each in tables), (part for each in tables for part in each.parts())


class _Joined:
    """One column of a packed table: ``size`` bytes."""

    def __init__(self, pieces: Sequence[Differences]) -> None:
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
