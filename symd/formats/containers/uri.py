"""Code object URIs, as AMD's debugger and profiler libraries write them: where the bytes of a loaded code object are.

Source: ROCdbgapi documentation, "Code Object URI". Parsing only: opening the file is somebody else's."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from symd.errors import BadQuery, Malformed, Unsupported

_RANGE = r"[#?]offset=([^&]*)&size=([^&]*)$"
_BEYOND = 1 << 63
"""The first offset that no file has (off_t)."""
_NUMBER = r"0[xX][0-9a-fA-F]{1,16}|0[0-7]{1,22}|[1-9][0-9]{0,19}|0"


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


def parse(text: str) -> CodeObjectUri:
    """``file://PATH``, optionally with ``#offset=N&size=N`` or ``?offset=N&size=N``; numbers are decimal, 0x
    hexadecimal or 0 octal, the path is %XX-encoded. Raises BadQuery, and Unsupported for ``memory://``."""
    if text.startswith("memory://"):
        raise Unsupported(
            "a memory:// URI names bytes in a running process, which symd does not read",
            where=text,
            hint="symd attach PROCESS --out FOLDER takes it while the process runs; a debugger can save it too",
        )
    if not text.startswith("file://"):
        raise BadQuery("is not a code object URI: it begins with neither file:// nor memory://", where=text)
    rest = text.removeprefix("file://")
    found = re.search(_RANGE, rest)
    path = _path(rest[: found.start()] if found else rest, text)
    if found is None:
        return CodeObjectUri(path)
    return CodeObjectUri(path, _number(found[1], "offset", text), _number(found[2], "size", text))


def memory_range(text: str) -> tuple[int, int]:
    """Address and size in ``memory://PROCESS#offset=N&size=N``. Raises BadQuery for anything else."""
    found = re.search(_RANGE, text)
    if not text.startswith("memory://") or found is None:
        raise BadQuery("is not memory://PROCESS#offset=NUMBER&size=NUMBER", where=text)
    return _number(found[1], "offset", text), _number(found[2], "size", text)


def _path(encoded: str, text: str) -> str:
    if re.search(r"[#?]", encoded):
        raise BadQuery("what follows # or ? must be offset=NUMBER&size=NUMBER", where=text)
    if re.search(r"%(?![0-9a-fA-F]{2})", encoded):
        raise BadQuery("a % in the path is not followed by two hexadecimal digits", where=text)
    if not encoded:
        raise BadQuery("the URI names no file", where=text)
    try:
        path = unquote_to_bytes(encoded.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise BadQuery("the path holds half a surrogate pair, which is not text", where=text) from None
    if "\0" in path:
        raise BadQuery("the path holds a NUL byte", where=text)
    return path


def _number(digits: str, what: str, text: str) -> int:
    if not re.fullmatch(_NUMBER, digits):
        raise BadQuery(f"the {what} {digits!r} is not a decimal, 0x hexadecimal or octal number", where=text)
    octal = digits[0] == "0" and digits[:2] not in ("0x", "0X")
    number = int(digits, 8) if octal else int(digits, 0)
    if number >= _BEYOND:
        raise BadQuery(f"the {what} {digits} is beyond the end of any file and memory", where=text)
    return number
