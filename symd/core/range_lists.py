# cython: language_level=3, boundscheck=True, wraparound=False
"""Range lists: ``.debug_ranges`` (DWARF 4, 2.17.3) and ``.debug_rnglists`` (DWARF 5, 7.25), and the tables of addresses
that they index."""

from __future__ import annotations

from array import array
from collections.abc import Callable

import cython

from symd.errors import LimitExceeded

if cython.compiled:
    from cython.cimports.symd.core.byte_reader import ByteReader
else:
    from symd.core.byte_reader import ByteReader


_U64 = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)

# Kinds of entries (7.25).
_END_OF_LIST = cython.declare(cython.int, 0x00)
_BASE_ADDRESSX = cython.declare(cython.int, 0x01)
_STARTX_ENDX = cython.declare(cython.int, 0x02)
_STARTX_LENGTH = cython.declare(cython.int, 0x03)
_OFFSET_PAIR = cython.declare(cython.int, 0x04)
_BASE_ADDRESS = cython.declare(cython.int, 0x05)
_START_END = cython.declare(cython.int, 0x06)
_START_LENGTH = cython.declare(cython.int, 0x07)

_MIN_GROWTH = cython.declare(cython.Py_ssize_t, 64)
_MIN_BYTES = cython.declare(cython.Py_ssize_t, 65536)


@cython.cfunc
@cython.exceptval(-1, check=True)
def is_dead(address: cython.ulonglong, width: cython.int) -> cython.bint:
    """Whether an address of so many bytes is one that linkers write for code which they left out: the highest, or the
    one below (DWARF 6, issue 200609.1; lld in ``.debug_ranges`` and ``.debug_loc``). So is that of 8 bytes in any unit:
    it is the ``low_pc`` of one whose address is not there."""
    highest: cython.ulonglong = _U64 >> (64 - 8 * width)
    return address in (highest, highest - 1, _U64, _U64 - 1)


@cython.cclass
class UnitParameters:
    """Everything of a unit that the meaning of its DIEs depends on: its DIEs are ``.debug_info[dies:end]``, references
    count from ``offset``, and the others are as ``symd.debuginfo.dwarf.units.Unit`` has them."""

    def __init__(
        self,
        number: int,
        offset: int,
        dies: int,
        end: int,
        version: int,
        address_size: int,
        offset_size: int,
        low_pc: int,
        str_offsets_base: int,
        addr_base: int,
        rnglists_base: int,
        ranges_base: int,
    ) -> None:
        self.number, self.offset, self.dies, self.end = number, offset, dies, end
        self.version, self.address_size, self.offset_size = version, address_size, offset_size
        self.low_pc, self.ranges_base = low_pc & _U64, ranges_base & _U64
        self.str_offsets_base, self.addr_base = str_offsets_base & _U64, addr_base & _U64
        self.rnglists_base = rnglists_base & _U64


@cython.cclass
class RangeRows(ByteReader):
    """The ranges of DIEs, in the order in which they are read, as arrays of which the first ``count`` entries are rows:
    ``which`` u32 is whose, ``start`` and ``stop`` u64 the addresses [start, stop); none is empty. ``entries`` of lists
    were read. Of the object that was opened last, ``damaged`` lists do not end or hold an unknown entry, and have no
    rows, and ``missing`` indexes lead out of ``.debug_addr``. ``check_rows`` is told how many rows there will be at
    least whenever the arrays grow, and may raise."""

    def __init__(
        self,
        ranges: bytes = b"",
        lists: bytes = b"",
        addresses: bytes = b"",
        check_rows: Callable[[int], object] | None = None,
    ) -> None:
        self._check_rows = check_rows
        self.which, self.start, self.stop = array("I"), array("Q"), array("Q")
        self.count = self.entries = 0
        self._which, self._start, self._stop = _NO_NARROW, _NO_WIDE, _NO_WIDE
        self.open(ranges, lists, addresses)

    def open(self, ranges: bytes, lists: bytes, addresses: bytes) -> None:
        """Go on with the lists of another object, whose sections these are; the rows so far stay."""
        self._ranges = self._lists = self._addresses = _NO_SECTION
        if ranges:
            self._ranges = ranges
        if lists:
            self._lists = lists
        if addresses:
            self._addresses = addresses
        # Bytes that all lists of a section may have together.
        self._ranges_left, self._lists_left = 4 * len(ranges) + _MIN_BYTES, 4 * len(lists) + _MIN_BYTES
        self.damaged = self.missing = 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def add(self, which: cython.uint, start: cython.ulonglong, stop: cython.ulonglong) -> cython.int:
        """One more row, unless it is empty."""
        if start >= stop:
            return 0
        at: cython.Py_ssize_t = self.count
        if at >= cython.cast(cython.Py_ssize_t, len(self._which)):
            self._grow()
        self._which[at], self._start[at], self._stop[at] = which, start, stop
        self.count = at + 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def restore(self, count: cython.Py_ssize_t, damaged: cython.Py_ssize_t, missing: cython.Py_ssize_t) -> cython.int:
        """Forget the rows that were read since there were so many; the work stays counted."""
        self.count, self.damaged, self.missing = count, damaged, missing
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def read(self, which: cython.uint, offset: cython.ulonglong, unit: UnitParameters) -> cython.int:
        """Add the rows of the list at ``offset`` of the section of the unit's version. Raises LimitExceeded for lists
        that overlap so much that together they are many times as long as their section."""
        first: cython.Py_ssize_t = self.count
        missing: cython.Py_ssize_t = self.missing
        is_whole: cython.bint
        is_new: cython.bint = unit.version >= 5
        if is_new:
            self.data, self.section = self._lists, ".debug_rnglists"
        else:
            self.data, self.section = self._ranges, ".debug_ranges"
        self.end = len(self.data)
        self.at = cython.cast(cython.Py_ssize_t, min(cython.cast(cython.ulonglong, self.end), offset))
        start: cython.Py_ssize_t = self.at
        is_whole = self._read_rnglists(which, unit) if is_new else self._read_ranges(which, unit, False)
        if is_new:
            self._lists_left -= self.at - start
        else:
            self._ranges_left -= self.at - start
        self._check_left()
        if not is_whole:
            self.restore(first, self.damaged + 1, missing)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def read_locations(self, which: cython.uint, offset: cython.ulonglong, unit: UnitParameters) -> cython.int:
        """Add the rows of the location list (DWARF 4, 2.6.2) at ``offset`` of ``.debug_loc``, which stands in the place
        of ``.debug_ranges``. Raises Malformed and LimitExceeded."""
        self.data, self.section = self._ranges, ".debug_loc"
        self.end = len(self.data)
        self.at = cython.cast(cython.Py_ssize_t, min(cython.cast(cython.ulonglong, self.end), offset))
        start: cython.Py_ssize_t = self.at
        if not self._read_ranges(which, unit, True):
            raise self.fail("a location list has no end")
        self._ranges_left -= self.at - start
        self._check_left()
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _check_left(self) -> cython.int:
        if self._lists_left < 0 or self._ranges_left < 0:
            raise LimitExceeded("range lists overlap without end", where=self.section)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _read_ranges(self, which: cython.uint, unit: UnitParameters, with_expressions: cython.bint) -> cython.bint:
        """Pairs of addresses up to a pair of zeros; a first address of all ones sets the base. Those of location lists
        have an expression behind them, and are as wide as addresses are. Returns whether they end."""
        width: cython.int = unit.address_size
        base: cython.ulonglong = unit.low_pc
        highest: cython.ulonglong = _U64 >> (64 - 8 * width)
        start: cython.ulonglong
        stop: cython.ulonglong
        has_code: cython.bint = not is_dead(base, width)
        while self.end - self.at >= 2 * width:
            start = self.uint(width)
            stop = self.uint(width)
            if start == 0 and stop == 0:
                return True
            self.entries += 1
            if start == highest:
                base, has_code = stop, not is_dead(stop, width)
                continue
            if has_code and not is_dead(start, width):
                self.add(which, (base + start) & highest, (base + stop) & highest)
            if with_expressions:
                self.skip(self.uint(2))
        return False

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _read_rnglists(self, which: cython.uint, unit: UnitParameters) -> cython.bint:
        """Entries of kinds up to DW_RLE_end_of_list. Returns whether they end, and all are known."""
        base: cython.ulonglong = unit.low_pc
        highest: cython.ulonglong = _U64 >> (64 - 8 * unit.address_size)
        has_code: cython.bint = not is_dead(base, unit.address_size)
        start: cython.ulonglong
        stop: cython.ulonglong
        kind: cython.int
        is_there: cython.bint
        is_whole: cython.bint
        width: cython.int = unit.address_size
        while self.at < self.end:
            kind = self.uint(1)
            if kind == _END_OF_LIST:
                return True
            if kind > _START_LENGTH:
                return False
            self.entries += 1
            if kind in (_OFFSET_PAIR, _STARTX_ENDX, _STARTX_LENGTH):
                is_whole = self._fit(0, 2)
            elif kind == _BASE_ADDRESSX:
                is_whole = self._fit(0, 1)
            else:
                is_whole = self._fit(2 * width if kind == _START_END else width, kind == _START_LENGTH)
            if not is_whole:
                return False
            is_there = True
            if kind == _OFFSET_PAIR:
                start = (base + self.uleb()) & highest
                stop = (base + self.uleb()) & highest
                is_there = has_code
            elif kind in (_BASE_ADDRESSX, _STARTX_ENDX, _STARTX_LENGTH):
                start = self.address(self.uleb(), unit)
                is_there = self.last_found
                stop = 0
                if kind == _STARTX_ENDX:
                    stop = self.address(self.uleb(), unit)
                    is_there = is_there and self.last_found
                elif kind == _STARTX_LENGTH:
                    stop = (start + self.uleb()) & highest
            else:
                start = self.uint(width)
                stop = 0
                if kind == _START_END:
                    stop = self.uint(width)
                elif kind == _START_LENGTH:
                    stop = (start + self.uleb()) & highest
            if kind in (
                _BASE_ADDRESSX,
                _BASE_ADDRESS,
            ):  # one that is not there is no reason to go on with the one before
                base, has_code = start, is_there and not is_dead(start, width)
            elif is_there and not is_dead(start, width):
                self.add(which, start, stop)
        return False

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _fit(self, size: cython.int, numbers: cython.int) -> cython.bint:
        """Whether so many bytes and, behind these, so many LEB128 numbers are left; where they are not, what was looked
        at counts as read."""
        at: cython.Py_ssize_t = self.at + size
        while numbers and at < self.end:
            numbers -= self.data[at] < 0x80
            at += 1
        if numbers == 0 and at <= self.end:
            return True
        self.at = min(at, self.end)
        return False

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def address(self, index: cython.ulonglong, unit: UnitParameters) -> cython.ulonglong:
        """An address by its index in the unit's part of ``.debug_addr``; ``last_found`` says whether it is there."""
        found: cython.ulonglong = self.entry(self._addresses, unit.addr_base, index, unit.address_size)
        if not self.last_found:
            self.missing += 1
        return found

    def trim(self) -> None:
        """Give back the memory that no row takes. No rows can be added then, as long as somebody looks into the
        arrays."""
        self._which, self._start, self._stop = _NO_NARROW, _NO_WIDE, _NO_WIDE
        for column in (self.which, self.start, self.stop):
            del column[self.count :]  # whoever takes more looks again

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _grow(self) -> cython.int:
        """Make the arrays half as long again."""
        if self._check_rows is not None:
            self._check_rows(self.count + 1)
        more: cython.Py_ssize_t = self.count // 2 + _MIN_GROWTH
        self._which, self._start, self._stop = _NO_NARROW, _NO_WIDE, _NO_WIDE
        self.which.frombytes(bytes(4 * more))
        self.start.frombytes(bytes(8 * more))
        self.stop.frombytes(bytes(8 * more))
        self._which, self._start, self._stop = self.which, self.start, self.stop
        return 0


_NO_SECTION = cython.declare(cython.const[cython.uchar][::1], b"")
_NO_WIDE = cython.declare(cython.ulonglong[::1], array("Q"))
_NO_NARROW = cython.declare(cython.uint[::1], array("I"))
