"""A part of a file: a byte range of a mapped file, of which slicing copies that slice and nothing else is read into
memory; and digests of such bytes."""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Iterable, Iterator

MAPPED = 4 << 20
"""Files of so many bytes are mapped where they are read: shorter ones are copied as fast."""
LARGE = 64 << 20
"""Modules of so many bytes are opened one code object after the other; smaller ones whole, which is simpler and as
fast."""
_READ_CHUNK = 32 << 20
"""Bytes that are gone through at a time."""
_FIRST_LOOK = 1 << 12


class FilePart:
    """Bytes ``[start, end)`` of ``data``, which are bytes or a mapped file: they are sliced and searched like bytes."""

    def __init__(self, data: bytes, start: int, end: int) -> None:
        self._data, self._start, self._end = data, start, end

    def __len__(self) -> int:
        return self._end - self._start

    def __bytes__(self) -> bytes:
        return self[:]

    def __getitem__(self, part: slice) -> bytes:
        start, stop, _ = part.indices(len(self))
        return self._data[self._start + start : self._start + max(start, stop)]

    def view(self) -> memoryview:
        """The bytes of the part without a copy, for whoever looks at them once."""
        return memoryview(self._data)[self._start : self._end]

    def find(self, wanted: bytes, start: int = 0, end: int | None = None) -> int:
        """The lowest offset of ``wanted`` in ``[start, end)`` of the part, or -1, as ``bytes.find`` gives it."""
        last = self._end if end is None else min(self._start + end, self._end)
        for at in range(self._start + start, last, _READ_CHUNK):
            found = self._data.find(wanted, at, min(at + _READ_CHUNK + len(wanted) - 1, last))
            if found >= 0:
                return found - self._start
            forget(self._data)
        return -1

    def part(self, start: int, end: int) -> FilePart:
        """Bytes ``[start, end)`` of it, still not read; ``0 <= start <= end <= len(self)``."""
        return FilePart(self._data, self._start + start, self._start + end)

    def blank(self) -> bool:
        """Whether there are zeros only. What is not blank mostly shows it at once, so the first look is a short one."""
        at, size = 0, _FIRST_LOOK
        while at < len(self):
            piece = self[at : at + size]
            if piece.count(0) < len(piece):
                return False
            at, size = at + size, _READ_CHUNK
            forget(self._data)
        return True


def part_of(data: bytes | FilePart) -> FilePart:
    """All of ``data``."""
    return data if isinstance(data, FilePart) else FilePart(data, 0, len(data))


def hashed(parts: Iterable[bytes | memoryview], algorithm: str = "sha256") -> bytes:
    """The digest of the parts, one after the other, by an algorithm of ``hashlib``; nobody's secrets are among them."""
    digest = getattr(hashlib, algorithm)(usedforsecurity=False)  # hashlib.new takes three times as long
    for part in parts:
        digest.update(part)
    found: bytes = digest.digest()
    return found


def sha256_of(data: bytes) -> str:
    """The SHA-256 of ``data``, lower-case hexadecimal. Of a mapped file no more than a piece is in memory at a time."""
    return hashed(_pieces(data)).hex()


def _pieces(data: bytes) -> Iterator[memoryview]:
    with memoryview(data) as whole:  # without copies of the pieces
        for at in range(0, len(data), _READ_CHUNK):
            with whole[at : at + _READ_CHUNK] as piece:
                yield piece
            forget(data)


def forget(data: bytes) -> None:
    """What was read of a mapped file need not stay in this process's memory; of bytes nothing changes."""
    mapped: object = data
    if isinstance(mapped, mmap.mmap):
        mapped.madvise(mmap.MADV_DONTNEED)
