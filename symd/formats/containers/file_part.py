"""A part of a file: a byte range of a mapped file, of which slicing copies that slice and nothing else is read into
memory; and code object URIs, with which AMD's debugger and profiler libraries say where the bytes of a loaded code
object are. They are parsed only: opening the file is somebody else's.

Source: ROCdbgapi documentation, "Code Object URI"."""

from __future__ import annotations

import hashlib
import mmap
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from symd.errors import BadQuery, Malformed, Unsupported

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


_NUMBER = r"(0[xX][0-9a-fA-F]{1,16}|0[0-7]{1,22}|[1-9][0-9]{0,19}|0)"
_RANGE = rf"[#?]offset={_NUMBER}&size={_NUMBER}"
_FILE = re.compile(rf"file://((?:[^#?%]|%[0-9a-fA-F]{{2}})+)(?:{_RANGE})?")
_MEMORY = re.compile(rf"memory://[^#?]*{_RANGE}")
_BEYOND = 1 << 63
"""The first offset that no file has (off_t)."""


class CodeObjectUri(NamedTuple):
    """The parts of a code object URI (LLVM's AMDGPU usage guide, "Code Object URI"). ``path`` is decoded; ``offset``
    and ``size`` are bytes, None when the URI means the whole file."""

    path: str
    offset: int | None = None
    size: int | None = None

    def cut(self, data: bytes) -> bytes:
        """The code object's bytes out of the file's. Raises Malformed where the range leaves the file."""
        if self.offset is None or self.size is None:
            return data
        end = self.offset + self.size
        if end > len(data):
            raise Malformed(f"the URI's range ends at byte {end}, past the file's {len(data)} bytes", where=self.path)
        return data[self.offset : end]


def is_uri(text: str) -> bool:
    """Whether the text is meant as a code object URI."""
    return text.startswith(("file://", "memory://"))


def parse_uri(text: str) -> CodeObjectUri:
    """``file://PATH``, optionally with ``#offset=N&size=N`` or ``?offset=N&size=N``; numbers are decimal, 0x
    hexadecimal or 0 octal, the path is %XX-encoded. Raises BadQuery, and Unsupported for ``memory://``."""
    if text.startswith("memory://"):
        raise Unsupported(
            "a memory:// URI names bytes in a running process, which symd does not read",
            where=text,
            hint="symd attach PROCESS --out FOLDER takes it while the process runs; a debugger can save it too",
        )
    found = _FILE.fullmatch(text)
    if found is None:
        hint = "numbers are decimal, 0x hexadecimal or 0 octal"
        raise BadQuery("is not a code object URI, file://PATH#offset=NUMBER&size=NUMBER", where=text, hint=hint)
    try:
        encoded = unquote_to_bytes(found[1].encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        raise BadQuery("the path holds half a surrogate pair, which is not text", where=text) from None
    if b"\0" in encoded:
        raise BadQuery("the path holds a NUL byte", where=text)
    path = encoded.decode("utf-8", "surrogateescape")
    return CodeObjectUri(path, *_numbers(found.groups()[1:], text)) if found[2] else CodeObjectUri(path)


def memory_range(text: str) -> tuple[int, int]:
    """Address and size in ``memory://PROCESS#offset=N&size=N``. Raises BadQuery for anything else."""
    found = _MEMORY.fullmatch(text)
    if found is None:
        raise BadQuery("is not memory://PROCESS#offset=NUMBER&size=NUMBER", where=text)
    return _numbers(found.groups(), text)


def _numbers(digits: Iterable[str], text: str) -> tuple[int, int]:
    offset, size = (int(each, 0 if each[:2] in ("0x", "0X") else 8 if each[0] == "0" else 10) for each in digits)
    if max(offset, size) >= _BEYOND:
        raise BadQuery("the offset or the size is beyond the end of any file and memory", where=text)
    return offset, size
