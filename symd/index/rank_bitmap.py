"""Where ranges begin, stored so that finding the range of a position takes no search: one bit for every place at which
an instruction could begin, and how many bits are set before each word. Sparse starts are a sorted column instead."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from symd.errors import DataLoss
from symd.index.format import Column, narrow
from symd.index.schema import Columns
from symd.model.columns import I64, U64

GROUP = 6
"""1 << GROUP words have one base, from which their ranks count; so a rank fits 16 bits."""
_ONE = np.uint64(1)
_DENSE_BATCH = 8
"""A batch of a position for every so many slots pays for a table of all slots."""


def alignment(positions: U64) -> int:
    """The power of two, as a shift, that divides all ``positions``."""
    return _shift(int(np.bitwise_or.reduce(positions, initial=0)))


def _shift(bits: int) -> int:
    return (bits & -bits).bit_length() - 1 if bits else 0


def encode_starts(pieces: Iterable[U64]) -> dict[str, Column]:
    """Columns start_* of sorted, distinct positions: of the two codings the smaller one. ``pieces`` have them end to end,
    and are gone through more than once."""
    bits, count, last = 0, 0, 0
    for piece in pieces:
        bits |= int(np.bitwise_or.reduce(piece, initial=0))
        count, last = count + len(piece), int(piece[-1]) if len(piece) else last
    shift = _shift(bits)
    slots = (last >> shift) + 1 if count else 0
    empty = np.zeros(0, np.uint64)
    if not count or slots // 64 * 10 > count * narrow(np.array([last])).itemsize:
        return {
            "start_shift": _scalar(shift),
            "start_bits": empty,
            "start_rank": empty.astype(np.uint16),
            "start_base": narrow(empty),
            "start_sorted": narrow(np.concatenate([narrow(piece) for piece in pieces])) if count else narrow(empty),
        }
    words = _words(pieces, shift, -(-slots // 64))
    rank, base = _ranks(words)
    return {
        "start_shift": _scalar(shift),
        "start_bits": words,
        "start_rank": rank,
        "start_base": narrow(base),
        "start_sorted": narrow(empty),
    }


def _words(pieces: Iterable[U64], shift: int, count: int) -> U64:
    """A bit for each slot in which a range starts."""
    words = np.zeros(count, np.uint64)
    for piece in pieces:
        if not len(piece):
            continue
        slot = piece >> shift
        first, last = int(slot[0]) >> 6, int(slot[-1]) >> 6
        flags = np.zeros((last + 1 - first) * 64, np.bool_)
        flags[slot - slot.dtype.type(first << 6)] = True
        words[first : last + 1] |= np.packbits(flags, bitorder="little").view("<u8")
    return words


def _ranks(words: U64) -> tuple[Column, U64]:
    """(the bits set in the words of its group before each word, those set before each group)."""
    held = np.zeros((-(-len(words) >> GROUP), 1 << GROUP), np.uint16)
    held.reshape(-1)[: len(words)] = np.bitwise_count(words)
    rank = np.cumsum(held, axis=1, dtype=np.uint16) - held
    in_groups = held.sum(axis=1, dtype=np.uint64)
    return rank.reshape(-1)[: len(words)], np.cumsum(in_groups) - in_groups


def _scalar(number: int) -> Column:
    return np.array([number], np.uint8)


class RankBitmap:
    """The columns as they are asked. Positions before the first start belong to range 0."""

    def __init__(self, columns: Columns) -> None:
        self._sorted, self._bits = columns.start_sorted, columns.start_bits
        self._rank, self._base = columns.start_rank, columns.start_base
        shift = columns.start_shift.tolist()
        groups = -(-len(self._bits) >> GROUP)
        if len(self._bits) != len(self._rank) or len(self._base) != groups or len(shift) != 1 or shift[0] > 63:
            raise DataLoss("has starts that contradict each other", where="index file")
        self._shift = int(shift[0])
        self._table: Column | None = None
        self.count = len(self._sorted) or self._last() + 1

    def check(self) -> None:
        """Raises DataLoss where ranks are not what the bits say, or sorted starts do not grow."""
        rank = np.cumsum(np.bitwise_count(self._bits), dtype=np.uint64) - np.bitwise_count(self._bits)
        base = np.repeat(rank[:: 1 << GROUP], 1 << GROUP)[: len(rank)]
        wrong = np.any(self._base != rank[:: 1 << GROUP]) or np.any(self._rank != rank - base)
        if wrong or np.any(self._sorted[1:] <= self._sorted[:-1]):
            raise DataLoss("has starts that contradict each other", where="index file")

    def _last(self) -> int:
        return self._before(len(self._bits) - 1) + int(self._bits[-1]).bit_count() - 1 if len(self._bits) else -1

    def _before(self, word: int) -> int:
        """The starts in all words before this one."""
        return int(self._base.item(word >> GROUP) + self._rank.item(word))

    def find(self, positions: U64) -> Column:
        """The number of the range around each position."""
        if not len(self._bits):
            if not len(self._sorted):
                return np.zeros(len(positions), np.int64)
            known = np.minimum(positions, np.uint64(self._sorted[-1])).astype(self._sorted.dtype)
            return np.maximum(np.searchsorted(self._sorted, known, side="right") - 1, 0)
        slot = positions >> np.uint64(self._shift)
        if self._table is None and len(positions) * _DENSE_BATCH < len(self._bits) * 64:
            return self._by_rank(slot)
        return self.table().take(slot.view(np.int64), mode="clip")

    def _by_rank(self, slot: U64) -> I64:
        slot = np.minimum(slot, np.uint64(len(self._bits) * 64 - 1))
        word = (slot >> np.uint64(6)).view(np.int64)
        below = (_ONE << (slot & np.uint64(63))) * np.uint64(2) - _ONE
        held = np.bitwise_count(self._bits[word] & below).astype(np.int64)
        rank: I64 = self._base[word >> GROUP].astype(np.int64) + self._rank[word] + held - 1
        return np.maximum(rank, 0)

    def table(self) -> Column:
        """The number of the range for every slot, made once, when a batch is large enough to want it."""
        if self._table is None:
            flags = np.unpackbits(np.ascontiguousarray(self._bits).view(np.uint8), bitorder="little")
            table = np.cumsum(flags, dtype=np.uint32 if self.count < 1 << 31 else np.uint64)
            self._table = np.maximum(table, 1, out=table) - table.dtype.type(1)
        return self._table

    def all(self) -> U64:
        """Every start, sorted."""
        if not len(self._bits):
            return self._sorted.astype(np.uint64)
        flags = np.unpackbits(np.ascontiguousarray(self._bits).view(np.uint8), bitorder="little")
        return np.flatnonzero(flags).astype(np.uint64) << np.uint64(self._shift)
