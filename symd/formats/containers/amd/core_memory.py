"""The memory that a core file holds, by its addresses.

Source: System V ABI, chapter 5, "Program Header"."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from symd.errors import Malformed
from symd.formats.elf import Segment
from symd.formats.elf.constants import PT_LOAD

_OVERLAP = 8
"""Times the size of the file that all segments together may have."""
_WORDS = {4: "<I", 8: "<Q"}


class CoreMemory:
    """The memory that a core dump holds, by address. ``data`` is the file, ``segments`` its program headers; of one
    that leaves the file, as in a dump that was cut off, what there is. Raises Malformed where they overlap without
    end."""

    def __init__(self, data: bytes, segments: Sequence[Segment]) -> None:
        there = (each._replace(file_size=min(each.file_size, max(len(data) - each.offset, 0))) for each in segments)
        loads = [segment for segment in there if segment.type == PT_LOAD and segment.file_size]
        self._data = data
        self.missing = sum(max(each.offset + each.file_size - max(len(data), each.offset), 0) for each in segments)
        """Bytes that the program headers tell of and the file does not have."""
        self._loads = sorted(loads, key=lambda segment: segment.address)
        self.size = sum(segment.file_size for segment in loads)
        if self.size > _OVERLAP * len(data):
            raise Malformed("segments overlap so much that they hold eight times the file")
        self._starts = [segment.address for segment in self._loads]

    def read(self, address: int, size: int) -> bytes:
        """The bytes at an address, fewer than ``size`` where the file does not have them. Segments that follow each other are
        read as one."""
        parts = []
        while size > 0:
            part = self._part(address, size)
            if not part:
                break
            parts.append(part)
            address, size = address + len(part), size - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _part(self, address: int, size: int) -> bytes:
        at = bisect_right(self._starts, address) - 1
        if at < 0:
            return b""
        segment = self._loads[at]
        inside = address - segment.address
        if inside >= segment.file_size:
            return b""
        start = segment.offset + inside
        return self._data[start : start + min(size, segment.file_size - inside)]

    def number(self, address: int, size: int) -> int | None:
        """The integer of 4 or 8 bytes at an address; None where the file does not have it."""
        found = self.read(address, size)
        return int(struct.unpack(_WORDS[size], found)[0]) if len(found) == size else None

    def text(self, address: int, most: int) -> str | None:
        """The string at an address, of at most so many bytes."""
        found = self.read(address, most)
        end = found.find(b"\0")
        return None if end < 0 else found[:end].decode("utf-8", "replace")

    def pages(self, size: int) -> Iterator[int]:
        """Every address that the file has and that is a multiple of ``size``."""
        for segment in self._loads:
            yield from range(-(-segment.address // size) * size, segment.address + segment.file_size, size)
