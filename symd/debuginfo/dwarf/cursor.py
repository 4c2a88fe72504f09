"""A bounded little-endian reader for headers and whatever else is read one value at a time."""

from __future__ import annotations

from symd.errors import Malformed

_ADDRESS_SIZES = (2, 4, 8)


class Cursor:
    """Reads ``data[at:end]`` forward. Running past ``end`` raises Malformed with the section and the offset."""

    __slots__ = ("at", "data", "end", "section")

    def __init__(self, data: bytes, section: str, at: int, end: int) -> None:
        self.data = data
        self.section = section
        self.at = at
        self.end = min(end, len(data))

    def fail(self, what: str, at: int | None = None) -> Malformed:
        """The error that says ``what`` about this place."""
        return Malformed(what, where=f"{self.section}+{self.at if at is None else at:#x}")

    def skip(self, count: int) -> int:
        """Pass ``count`` bytes; returns where they begin."""
        start = self.at
        if count > self.end - start:
            raise self.fail(f"{count} bytes are needed and {max(self.end - start, 0)} are left")
        self.at = start + count
        return start

    def unsigned(self, size: int) -> int:
        start = self.at
        stop = start + size
        if stop > self.end:
            self.skip(size)  # which raises
        self.at = stop
        return int.from_bytes(self.data[start:stop], "little")

    def address(self, size: int) -> int:
        if size not in _ADDRESS_SIZES:
            raise self.fail(f"an address of {size} bytes")
        return self.unsigned(size)

    def uleb(self) -> int:
        """An unsigned LEB128, modulo 2**64."""
        data, at, end = self.data, self.at, self.end
        if at < end and data[at] < 0x80:
            self.at = at + 1
            return data[at]
        value = shift = 0
        while at < end:
            byte = data[at]
            at += 1
            if shift < 64:
                value |= (byte & 0x7F) << shift
                shift += 7
            if byte < 0x80:
                self.at = at
                return value & 0xFFFFFFFFFFFFFFFF
        raise self.fail("a LEB128 number has no end")

    def sleb(self) -> int:
        """A signed LEB128, as a Python int in the range of 64 bits."""
        start = self.at
        value = self.uleb()
        bits = 7 * (self.at - start)
        if bits < 64 and self.data[self.at - 1] & 0x40:
            return value - (1 << bits)
        return value - (1 << 64) if value >> 63 else value

    def text(self) -> bytes:
        """A NUL-terminated string, without the NUL."""
        stop = self.data.find(b"\0", self.at, self.end)
        if stop < 0:
            raise self.fail("a string has no end")
        start, self.at = self.at, stop + 1
        return self.data[start:stop]

    def initial_length(self) -> tuple[int, int]:
        """A unit's length field: (length, offset size 4 or 8) (DWARF 5, 7.4)."""
        length = self.unsigned(4)
        if length == 0xFFFFFFFF:
            return self.unsigned(8), 8
        if length >= 0xFFFFFFF0:
            raise self.fail(f"reserved unit length {length:#x}", self.at - 4)
        return length, 4
