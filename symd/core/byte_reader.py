# cython: language_level=3, boundscheck=True, wraparound=False
"""A bounded little-endian reader of one section, which the readers of the core inherit, NUL-terminated strings of debug
sections, and lists of distinct ones: keys, which say where a string stands, become numbers in such a list.

Numbers are of 64 bits, and arithmetic is modulo 2**64, compiled or not."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import cython

from symd.errors import LimitExceeded, Malformed
from symd.model.light_typing import Any

if cython.compiled:
    from cython.cimports.symd.core import sorting
else:
    from symd.core import sorting


_U64 = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


@cython.cclass
class ByteReader:
    """Reads ``data[at:end]``, the bytes of the section called ``section``, forward. Running past ``end`` raises
    Malformed with the section and the offset. ``last_found`` says whether the last ``entry`` that was asked for is
    there."""

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def uint(self, size: cython.Py_ssize_t) -> cython.ulonglong:
        """The little-endian number in the next ``size`` bytes, of which there are at most 8."""
        start: cython.Py_ssize_t = self.at
        if size > self.end - start:
            raise self.fail(f"{size} bytes are needed and {max(self.end - start, 0)} are left")
        value: cython.ulonglong = 0
        byte: cython.ulonglong
        at: cython.Py_ssize_t
        for at in range(size):
            byte = self.data[start + at]
            value |= byte << (8 * at)
        self.at = start + size
        return value

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def uleb(self) -> cython.ulonglong:
        """An unsigned LEB128 (DWARF 5, 7.6)."""
        value: cython.ulonglong = 0
        shift: cython.int = 0
        byte: cython.ulonglong
        at: cython.Py_ssize_t = self.at
        while at < self.end:
            byte = self.data[at]
            at += 1
            if shift < 64:
                value |= (byte & 0x7F) << shift
                shift += 7
            if byte < 0x80:
                self.at = at
                return value & _U64
        raise self.fail("a LEB128 number has no end")

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def sleb(self) -> cython.ulonglong:
        """A signed LEB128 (DWARF 5, 7.6)."""
        start: cython.Py_ssize_t = self.at
        value: cython.ulonglong = self.uleb()
        bits: cython.Py_ssize_t = 7 * (self.at - start)
        if bits < 64 and self.data[self.at - 1] & 0x40:
            value |= (_U64 << bits) & _U64
        return value

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def skip(self, count: cython.ulonglong) -> cython.int:
        """Pass ``count`` bytes."""
        left: cython.Py_ssize_t = max(self.end - self.at, 0)
        if count > cython.cast(cython.ulonglong, left):
            raise self.fail(f"{count} bytes are needed and {left} are left")
        self.at += cython.cast(cython.Py_ssize_t, count)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def pass_text(self) -> cython.int:
        """Pass a string that ends in NUL, and that."""
        at: cython.Py_ssize_t
        for at in range(self.at, self.end):
            if self.data[at] == 0:
                self.at = at + 1
                return 0
        raise self.fail("a string has no end")

    @cython.cfunc
    def text(self) -> bytes:
        """A string that ends in NUL, without it."""
        start: cython.Py_ssize_t = self.at
        self.pass_text()
        return bytes(self.data[start : self.at - 1])

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def initial_length(self) -> cython.ulonglong:
        """The length with which a unit or a table begins; ``offset_size`` becomes that of its offsets, 4 or 8 (DWARF 5,
        7.4)."""
        length: cython.ulonglong = self.uint(4)
        self.offset_size = 4
        if length == 0xFFFFFFFF:
            self.offset_size = 8
            return self.uint(8)
        if length >= 0xFFFFFFF0:
            self.at -= 4
            raise self.fail(f"reserved unit length {length:#x}")
        return length

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def entry(
        self,
        data: cython.const[cython.uchar][::1],  # type: ignore[valid-type] # a view, to Cython
        base: cython.ulonglong,
        index: cython.ulonglong,
        width: cython.int,
    ) -> cython.ulonglong:
        """Entry ``index`` of the table of numbers of ``width`` bytes at ``base`` of any section, wherever the reader
        is; 0 where there is none (``last_found``)."""
        end: cython.ulonglong = len(data)
        start: cython.ulonglong = end
        if index <= end and base <= end:
            start = base + index * width
        self.last_found = start < end and end - start >= cython.cast(cython.ulonglong, width)
        if not self.last_found:
            return 0
        value: cython.ulonglong = 0
        byte: cython.ulonglong
        at: cython.Py_ssize_t
        for at in range(width):
            byte = data[cython.cast(cython.Py_ssize_t, start) + at]
            value |= byte << (8 * at)
        return value

    @cython.cfunc
    def fail(self, what: str) -> object:
        """The error that says ``what`` about this place."""
        return Malformed(what, where=f"{self.section}+{self.at:#x}")


IN_INFO, IN_STRINGS, IN_LINE_STRINGS = 1, 2, 3
"""The sections that hold strings, as keys number them."""
_SECTION_BITS = cython.declare(cython.int, 60)
_KEY_OFFSET = cython.declare(cython.ulonglong, 0x0FFFFFFFFFFFFFFF)
SECTION_BITS = _SECTION_BITS
"""A key is the number of a section, shifted by these, and an offset in it; key 0 is no string."""
KERNEL_BODY = "__clang_ocl_kern_imp_"
"""What stands in front of a kernel's name where clang 20 or later compiles the body of an OpenCL kernel as a
function, which is inlined into the kernel."""
MAX_EXPANSION = 16
"""Bytes read per byte of the sections of strings, at most."""
_MIN_ALLOWANCE = cython.declare(cython.longlong, 1 << 20)
"""Bytes that may be read in any case."""
_MAX_OFFSET = (1 << 63) - 1


@cython.cclass
class StringReader:
    """Reads NUL-terminated strings out of sections. Strings may share their ends; where together they are many times
    as long as their sections, LimitExceeded is raised."""

    def __init__(self, sections: Any) -> None:
        """``sections`` are ``symd.debuginfo.dwarf.sections.DebugSections``: each has a name, and data that is read when
        somebody asks for it."""
        self._sections: tuple[Any, ...] = (None, sections.info, sections.strings, sections.line_strings)
        self._section, self._ends = 0, array("q", (0, -1, -1, -1))
        self._allowance = _MIN_ALLOWANCE

    def at(self, section: int, offset: int) -> bytes | None:
        """The string at ``offset`` of a section, such as IN_STRINGS; None where the section has none."""
        return self.find(section, offset) if offset <= _MAX_OFFSET else None

    @cython.cfunc
    def find(self, section: cython.int, offset: cython.longlong) -> bytes | None:
        """The string at ``offset`` of a section, such as IN_STRINGS, for callers that have numbers of C; None where
        the section has none."""
        if section != self._section:
            self._open(section)
        if offset >= self._end:
            return None
        stop: cython.longlong
        for stop in range(offset, self._end):
            if self._view[stop] == 0:
                break
        self._allowance -= stop - offset
        if self._allowance < 0:
            raise LimitExceeded("strings overlap without end", where=self._sections[section].name)
        found: bytes = self._data[offset:stop]
        return found

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _open(self, section: cython.int) -> cython.int:
        """Look into a section, up to the end of its last string."""
        data = self._sections[section].data
        if self._ends[section] < 0:
            self._ends[section] = data.rfind(b"\0") + 1
            self._allowance += MAX_EXPANSION * len(data)
        self._section, self._data, self._view, self._end = section, data, data, self._ends[section]
        return 0


@cython.cclass
class Names:
    """A growing list of distinct strings; number 0 is ""."""

    def __init__(self, known: Iterable[str] = ("",)) -> None:
        self._numbers = {name: number for number, name in enumerate(known)}

    def all(self) -> tuple[str, ...]:
        """The strings in the order of their numbers."""
        return tuple(self._numbers)

    def intern(self, strings: StringReader, keys: Any) -> tuple[array[int], int]:
        """The number (u32) of the string of each key (u64), 0 where there is none, and how many distinct keys lead to
        no string. New strings are numbered in the order of their keys; one that is not UTF-8 keeps its readable
        part."""
        found = array("I", bytes(4 * len(keys)))
        scratch = memoryview(array("Q", bytes(16 * len(keys))))
        return found, self.number(strings, keys, 0, 1, found, scratch)

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def number(
        self,
        strings: StringReader,
        keys: cython.const[cython.ulonglong][::1],  # type: ignore[valid-type] # a view, to Cython
        first: cython.Py_ssize_t,
        step: cython.Py_ssize_t,
        numbers: cython.uint[::1],
        scratch: cython.ulonglong[::1],
    ) -> cython.Py_ssize_t:
        """Write into ``numbers`` the number of the string of every ``step``-th key from the ``first`` on, 0 where
        there is none; return how many distinct keys lead to no string. New strings are numbered in the order of
        their keys. ``scratch`` is at least twice as long, and is changed."""
        count: cython.Py_ssize_t = len(numbers)
        distinct = cython.declare(cython.ulonglong[::1])
        number = cython.declare(cython.ulonglong[::1])
        distinct = scratch
        at: cython.Py_ssize_t
        kept: cython.Py_ssize_t = 0
        key: cython.ulonglong
        before: cython.ulonglong = 0
        for at in range(count):
            key = keys[first + step * at]
            if key != before and key:
                distinct[kept] = key
                kept += 1
            before = key
        distinct, number = scratch[:kept], scratch[kept : 2 * kept]
        if sorting.order(distinct, number):
            distinct, number = number, distinct
        some: cython.Py_ssize_t = kept
        kept = 0
        before = 0
        for at in range(some):
            if distinct[at] != before:
                distinct[kept] = before = distinct[at]
                kept += 1
        distinct = distinct[:kept]
        known = self._numbers
        missing: cython.Py_ssize_t = 0
        for at in range(kept):
            text = strings.find(cython.cast(cython.int, distinct[at] >> _SECTION_BITS), distinct[at] & _KEY_OFFSET)
            if text is None:
                number[at] = 0
                missing += 1
            else:
                number[at] = known.setdefault(text.decode("utf-8", "replace"), len(known))
        place: cython.Py_ssize_t = 0
        for at in range(count):
            key = keys[first + step * at]
            if not key:
                numbers[at] = 0
                continue
            if distinct[place] != key:
                place = sorting.upper_bound(distinct, key) - 1
            numbers[at] = cython.cast(cython.uint, number[place])
        return missing
