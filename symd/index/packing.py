"""Ranges and tables as an index file stores them: ranges in compressed pages that are opened when they are asked for,
tables that nobody searches as differences from row to row."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from operator import attrgetter
from typing import Any

import numpy as np

from symd.core.index_lookup import LARGEST_PAGE
from symd.errors import DataLoss
from symd.index.format import Column, decompress, narrow
from symd.index.schema import Columns
from symd.model.columns import I64
from symd.model.reasons import KNOWN

PAGE_SHIFT = 12
"""A page has 1 << PAGE_SHIFT ranges."""
_PAGES_A_PAGE = 12
"""Where more than one page of so many is wanted, all are opened at once, which is as cheap as one by one."""
_SIGNED = {width: np.dtype(f"<i{width}") for width in (1, 2, 4, 8)}
_LARGEST = tuple(((1 << 8 * width - 1) - 1, dtype) for width, dtype in _SIGNED.items())
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
    return next(dtype for largest, dtype in _LARGEST if ~largest <= low and high <= largest)


def unpack_table(packed: Column, count: int, width: int) -> list[Column]:
    """The ``width`` columns that ``kept.packed_table`` was given, of ``count`` entries each. Raises DataLoss."""
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
        data = memoryview(decompress(self._data[begin : int(self._ends[page])], LARGEST_PAGE))
        bits = size + 7 >> 3
        widths = [dtype.itemsize for dtype in (*self._widths, _BYTE)]
        sizes = [bits, int.from_bytes(data[:bits]).bit_count() * widths[0], *(size * width for width in widths[1:])]
        stops = list(accumulate(sizes))
        if stops[-1] != len(data) or not data[0] & 1 or data[bits - 1] >> ((size - 1) % 8 + 1):
            raise DataLoss("has a page of ranges that is not whole", where="index file")
        return [data[stop - size : stop] for stop, size in zip(stops, sizes, strict=True)]

    def _stop(self, page: int) -> int:
        return min((page + 1) << PAGE_SHIFT, self._count)
