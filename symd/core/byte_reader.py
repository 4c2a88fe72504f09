# cython: language_level=3, boundscheck=True, wraparound=False
"""A bounded little-endian reader of one section, which the readers of the core inherit.

Numbers are of 64 bits, and arithmetic is modulo 2**64, compiled or not."""

from __future__ import annotations

import cython

from symd.errors import Malformed

_U64 = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


@cython.cclass
class ByteReader:
    """Reads ``data[at:end]``, the bytes of the section called ``section``, forward. Running past ``end`` raises
    Malformed with the section and the offset."""

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
    def fail(self, what: str) -> object:
        """The error that says ``what`` about this place."""
        return Malformed(what, where=f"{self.section}+{self.at:#x}")
