"""Code object URIs, with which AMD's debugger and profiler libraries say where the bytes of a loaded code object are.
They are parsed only: opening the file is somebody else's.

Source: ROCdbgapi documentation, "Code Object URI"."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from symd.errors import BadQuery, Malformed, Unsupported

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
