"""Columns that wait to be written: as they are, or compressed, so that the tables of a large module take a part of the
memory that they would take side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np
import zstandard

from symd.index.format import Column, narrow
from symd.index.packing import narrow_signed, signed_type, widest

_LEVEL = -3
"""Zstandard's: what waits is read once or twice, so that speed counts more than size."""
_WRAP = 1 << 64
_BLOCK = 40 << 20
"""Bytes of memory of which small pieces are taken; glibc maps so much by itself (mallopt(3), M_MMAP_THRESHOLD). Pieces
that stay where arrays come and go would leave holes that nothing fits into."""
_TOGETHER = 1 << 17
"""Entries that are worked on together: what is made of them fits the caches."""


class CompressedColumn(NamedTuple):
    """A column of so many ``entries``; ``values`` gives its numbers, as a read-only array."""

    dtype: np.dtype[Any]
    entries: int
    values: Callable[[], Column]


class Keeper:
    """Keeps columns as they are, where all of them fit into memory."""

    def keep(self, values: Column) -> CompressedColumn:
        return CompressedColumn(values.dtype, len(values), lambda: values)

    def keep_ascending(self, values: Column) -> CompressedColumn:
        """Keep a column whose numbers never get smaller."""
        return self.keep(values)


class Arena(Keeper):
    """Keeps columns compressed."""

    def __init__(self) -> None:
        self._compress = zstandard.ZstdCompressor(level=_LEVEL).compress
        self._decompress = zstandard.ZstdDecompressor().decompress
        self._block = memoryview(b"")
        self._free = 0

    def keep(self, values: Column) -> CompressedColumn:
        data, dtype = self._put(np.ascontiguousarray(values)), values.dtype
        return CompressedColumn(dtype, len(values), lambda: np.frombuffer(self._decompress(data), dtype))

    def keep_ascending(self, values: Column) -> CompressedColumn:
        if not len(values):
            return self.keep(values)
        steps, first = self.keep(narrow(np.diff(values, prepend=values[:1]))), values[0]
        return CompressedColumn(
            values.dtype, len(values), lambda: np.cumsum(steps.values(), dtype=values.dtype) + first
        )

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

    __slots__ = ("first", "last", "steps")

    def __init__(self, values: Column, keeper: Keeper) -> None:
        self.first, self.last = (int(values[0]), int(values[-1])) if len(values) else (0, 0)
        parts = [_steps(values, first) for first in range(0, max(len(values), 1), _TOGETHER)]
        self.steps = keeper.keep(np.concatenate(parts) if len(parts) > 1 else parts[0])

    def moved(self, by: int) -> Differences:
        """The table column with ``by`` added to each entry; the differences are shared."""
        found = copy(self)
        found.first, found.last = self.first + by, self.last + by
        return found

    def values(self) -> Column:
        """The numbers themselves, each of 64 bits."""
        found = np.cumsum(self.steps.values(), dtype=np.int64)
        found += np.uint64(self.first).view(np.int64)
        return found.view(np.uint64)


def _steps(values: Column, first: int) -> Column:
    """How far each of some entries is from the one before, the first of all from itself, as narrow as they are."""
    some = values[first : first + _TOGETHER].astype(np.int64)
    steps = np.empty_like(some)
    np.subtract(some[1:], some[:-1], out=steps[1:])
    steps[:1] = some[:1] - values[first - 1].astype(np.int64) if first else 0
    return narrow_signed(steps)


def packed_table(columns: Sequence[Sequence[Differences]]) -> tuple[int, Iterator[bytes | Column]]:
    """(size, content) of a table that nobody searches: the differences of its columns, one column after the other, each
    as the width of its entries (one byte) and the entries. Each column is in pieces."""
    tables = [_Joined([piece for piece in pieces if piece.steps.entries]) for pieces in columns]
    return sum(each.size for each in tables), (part for each in tables for part in each.parts())


class _Joined:
    """One column of a packed table: ``size`` bytes."""

    def __init__(self, pieces: Sequence[Differences]) -> None:
        before = [0, *[piece.last for piece in pieces[:-1]]]
        firsts = [_wrapped(piece.first - last) for piece, last in zip(pieces, before, strict=False)]
        types = [signed_type(min(firsts, default=0), max(firsts, default=0)), *[piece.steps.dtype for piece in pieces]]
        self._pieces, self._firsts, self._dtype = pieces, firsts, widest(types)
        self.size = 1 + self._dtype.itemsize * sum([piece.steps.entries for piece in pieces])

    def parts(self) -> Iterator[bytes | Column]:
        yield bytes([self._dtype.itemsize])
        for piece, first in zip(self._pieces, self._firsts, strict=True):
            steps = piece.steps.values().astype(self._dtype)
            steps[0] = first
            yield steps


def _wrapped(difference: int) -> int:
    """A number as 64 signed bits have it."""
    return (difference + _WRAP // 2) % _WRAP - _WRAP // 2
