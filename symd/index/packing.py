"""Ranges and tables in the form in which an index file stores them, and columns that wait to be written.

The starts of ranges are one bit for every place at which an instruction could begin, with the number of bits before
each word, so that finding the range of a position takes no search; sparse starts are a sorted column instead. The other
columns of ranges are in compressed pages, opened when needed. Tables that nobody searches are stored as differences
from row to row.

Columns wait as they are, or compressed, so that the tables of a large module take a part of the memory that they would
take side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from itertools import accumulate
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import zstandard

from symd.core.index_lookup import MAX_PAGE_BYTES
from symd.errors import DataLoss
from symd.index.format import Column, decompress, narrow
from symd.index.schema import Columns
from symd.model.columns import I64, U64
from symd.model.reasons import KNOWN

GROUP = 6
"""1 << GROUP words have one base, from which their ranks count; so a rank fits 16 bits."""
_ONE = np.uint64(1)
_DENSE_BATCH = 8
"""A batch of a position for every so many slots pays for a table of all slots."""


def _shift(bits: int) -> int:
    return (bits & -bits).bit_length() - 1 if bits else 0


def encode_starts(pieces: Iterable[U64]) -> dict[str, Column]:
    """Columns start_* of sorted, distinct positions: of the two codings the smaller one. ``pieces`` have them end to
    end, and are gone through more than once."""
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
        return self._set_in(0, len(self._bits))

    def behind(self, start: int, stop: int) -> U64:
        """The starts above ``start`` and below ``stop``, sorted."""
        if not len(self._bits):
            first, last = np.searchsorted(self._sorted, [start, stop - 1], side="right")
            return self._sorted[first:last].astype(np.uint64)
        found = self._set_in(start >> self._shift + 6, (stop >> self._shift + 6) + 1)
        return found[(found > start) & (found < stop)]

    def _set_in(self, first: int, last: int) -> U64:
        """The starts in words ``first`` to ``last``."""
        words = np.ascontiguousarray(self._bits[first:last])
        flags = np.unpackbits(words.view(np.uint8), bitorder="little")
        return (np.flatnonzero(flags).astype(np.uint64) + np.uint64(first * 64)) << np.uint64(self._shift)


PAGE_SHIFT = 12
"""A page has 1 << PAGE_SHIFT ranges."""
_PAGES_A_PAGE = 12
"""Where more than one page of so many is wanted, all are opened at once, which is as cheap as one by one."""
_SIGNED = {width: np.dtype(f"<i{width}") for width in (1, 2, 4, 8)}
_SIGNED_MAXIMA = tuple(((1 << 8 * width - 1) - 1, dtype) for width, dtype in _SIGNED.items())
"""Signed types, the narrowest first, and the largest number of each."""
_IS_REASON = np.isin(np.arange(256), KNOWN)
_BYTE = np.dtype(np.uint8)
_itemsize = attrgetter("itemsize")
_UNSIGNED = {width: np.dtype(f"<u{width}") for width in (1, 2, 4)}


def narrow_signed(values: I64) -> Column:
    """``values`` in the narrowest signed type that holds them."""
    low, high = int(np.minimum.reduce(values, initial=0)), int(np.maximum.reduce(values, initial=0))
    return values.astype(signed_type(low, high), copy=False)


def widest(types: Iterable[np.dtype[Any]]) -> np.dtype[Any]:
    """The widest of several types, all signed or all unsigned."""
    return max(types, key=_itemsize)


def signed_type(low: int, high: int) -> np.dtype[Any]:
    """The narrowest signed type that holds these."""
    return next(dtype for largest, dtype in _SIGNED_MAXIMA if ~largest <= low and high <= largest)


def unpack_table(packed: Column, count: int, width: int) -> list[Column]:
    """The ``width`` columns that ``packed_table`` was given, of ``count`` entries each. Raises
    DataLoss."""
    data, at, columns = decompress(packed), 0, []
    for _ in range(width):
        itemsize = data[at] if at < len(data) else 0
        if itemsize not in _SIGNED or at + 1 + itemsize * count > len(data):
            raise DataLoss("has a table that ends early", where="index file")
        differences = np.frombuffer(data, _SIGNED[itemsize], count, at + 1)
        columns.append(narrow(np.cumsum(differences, dtype=np.int64).view(np.uint64)))
        at += 1 + itemsize * count
    return columns


def _written(columns: Columns) -> tuple[Column, ...]:
    return (
        columns.written_range,
        columns.written_frame,
        columns.written_line,
        columns.written_column,
        columns.written_reason,
    )


class RangePages:
    """The packed columns as they are asked: the frame, the line, the column and the reason of ranges. A page is opened
    when one of its ranges is asked for, and stays so. Safe to use from several threads: a page that two open is written
    twice with the same. ``as_written``: what rows and scopes say of ranges that are answered otherwise."""

    def __init__(self, columns: Columns, *, as_written: bool = False) -> None:
        self._count = int(columns.range_count.item(0))
        self._first_frame, self._ends, self._data = columns.page_frame, columns.page_end, columns.page_data
        self._base, widths = columns.frame_line, columns.page_width.tolist()
        pages = -(-self._count >> PAGE_SHIFT)
        if len(self._ends) != pages or len(self._first_frame) != pages or len(widths) != 3:
            raise DataLoss("has ranges that contradict each other", where="index file")
        try:
            self._widths = _SIGNED[widths[0]], _UNSIGNED[widths[1]], _UNSIGNED[widths[2]]
        except KeyError:
            raise DataLoss("has ranges of no known width", where="index file") from None
        self._open = bytearray(pages)
        self._frame = np.empty(self._count, np.uint16 if len(self._base) <= 1 << 16 else np.uint32)
        self._line = np.empty(self._count, np.uint32)
        self._written = _written(columns) if as_written else None
        width = self._widths[2] if self._written is None else np.dtype(np.uint32)
        self._column, self._reason = np.empty(self._count, width), np.empty(self._count, np.uint8)

    def __len__(self) -> int:
        return self._count

    def frame(self, ranges: Column) -> Column:
        self._want(ranges)
        return self._frame[ranges]

    def line(self, ranges: Column) -> Column:
        self._want(ranges)
        return self._line[ranges]

    def column(self, ranges: Column) -> Column:
        self._want(ranges)
        return self._column[ranges]

    def reason(self, ranges: Column) -> Column:
        self._want(ranges)
        return self._reason[ranges]

    def _want(self, ranges: Column) -> None:
        """Open the pages of ``ranges``."""
        if 0 not in self._open:
            return
        wanted = np.zeros(len(self._open), np.bool_)
        wanted[ranges >> PAGE_SHIFT] = True
        wanted &= np.frombuffer(self._open, np.bool_) == 0
        pages = np.flatnonzero(wanted).tolist()
        if len(pages) * _PAGES_A_PAGE > len(wanted):
            self._open_pages(range(len(wanted)))
            return
        for page in pages:
            self._open_pages(range(page, page + 1))

    def _open_pages(self, pages: range) -> None:
        """Open pages that lie one after the other, all at once."""
        found = [self._page(page) for page in pages]
        bits, steps, above, column, reason = (
            np.frombuffer(b"".join(planes), dtype)
            for planes, dtype in zip(zip(*found, strict=True), (_BYTE, *self._widths, _BYTE), strict=True)
        )
        run = np.flatnonzero(np.unpackbits(bits, count=len(reason), bitorder="little"))
        lengths = np.diff(run, append=len(reason))
        held = np.array([len(page[1]) for page in found]) // steps.itemsize
        frame = np.cumsum(steps, dtype=np.int64)
        first = self._first_frame[pages.start : pages.stop]
        frame += np.repeat(first - frame[np.cumsum(held) - held], held)
        if int(frame.min()) < 0 or int(frame.max()) >= len(self._base) or not _IS_REASON[reason].all():
            raise DataLoss("has ranges of frames or reasons that are not there", where="index file")
        at = slice(pages.start << PAGE_SHIFT, (pages.start << PAGE_SHIFT) + len(reason))
        self._frame[at] = np.repeat(frame, lengths)
        self._line[at] = (np.repeat(self._base[frame], lengths) + above.astype(np.uint32)) * (above > 0)
        self._column[at], self._reason[at] = column, reason
        if self._written is not None:
            self._write_over(at.start, at.stop)
        self._open[pages.start : pages.stop] = b"\1" * len(pages)

    def _write_over(self, first: int, stop: int) -> None:
        """Put what is written in the place of what is answered, in ranges ``first`` to ``stop``."""
        ranges, *values = self._written or ()
        some = slice(*np.searchsorted(ranges, [first, stop]).tolist())
        answered: list[Column] = [self._frame, self._line, self._column, self._reason]
        for column, value in zip(answered, values, strict=True):
            column[ranges[some]] = value[some]

    def _page(self, page: int) -> list[memoryview]:
        """The planes of a page: bits, steps, lines, columns, reasons."""
        begin, size = int(self._ends[page - 1]) if page else 0, self._stop(page) - (page << PAGE_SHIFT)
        data = memoryview(decompress(self._data[begin : int(self._ends[page])], MAX_PAGE_BYTES))
        bits = size + 7 >> 3
        widths = [dtype.itemsize for dtype in (*self._widths, _BYTE)]
        sizes = [bits, int.from_bytes(data[:bits]).bit_count() * widths[0], *(size * width for width in widths[1:])]
        stops = list(accumulate(sizes))
        if stops[-1] != len(data) or not data[0] & 1 or data[bits - 1] >> ((size - 1) % 8 + 1):
            raise DataLoss("has a page of ranges that is not whole", where="index file")
        return [data[stop - size : stop] for stop, size in zip(stops, sizes, strict=True)]

    def _stop(self, page: int) -> int:
        return min((page + 1) << PAGE_SHIFT, self._count)


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
