"""Files that gzip, zstd, xz, bzip2 or lz4 made, of one member: what is inside is opened. CUDA's drivers can write core
dumps so.

Source: RFC 1952 (gzip), RFC 8878 (zstd), the .xz file format 1.2, LZ4's frame format 1.6."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from io import BytesIO
from typing import Any, Final, NamedTuple

from symd.errors import Malformed, Unsupported
from symd.formats.budget import Budget
from symd.formats.containers.format import Contents, Element

NAME = "gzip"
INSIDE = "content"
"""The nesting path's element of what is inside."""
_READ_CHUNK: Final = 1 << 10
"""Bytes that are expanded at a time, of which zlib makes 1,032 times as many at most and zstd 32,768 times, before they
are counted."""
_EXPANDED_AT_ONCE: Final = 1 << 20
"""Bytes that the others, whose ratios are larger, make at a time."""
_MAX_XZ_MEMORY: Final = 256 << 20
"""Bytes of memory that expanding may take, which a file demands; the strongest of xz's levels takes 65 MiB. zstd's
library has 128 MiB."""
_AGAIN = "copy it again"


class _Method(NamedTuple):
    """``program`` is what else expands such a file; ``module`` is slow to load, and a file has one of them; ``begin``
    takes it and gives a decompressor and what that raises for damaged data."""

    name: str
    magic: bytes
    program: str
    module: str
    begin: Callable[[Any], tuple[Any, type[Exception]]]


_BZIP2 = "bzip2"
_METHODS: Final = (
    _Method(NAME, b"\x1f\x8b\x08", "gunzip", "zlib", lambda zlib: (zlib.decompressobj(wbits=31), zlib.error)),
    _Method(
        "zstd",
        b"\x28\xb5\x2f\xfd",
        "unzstd",
        "zstandard",
        lambda zstd: (zstd.ZstdDecompressor().decompressobj(), zstd.ZstdError),
    ),
    _Method(
        "xz",
        b"\xfd7zXZ\0",
        "unxz",
        "lzma",
        lambda lzma: (lzma.LZMADecompressor(lzma.FORMAT_XZ, _MAX_XZ_MEMORY), lzma.LZMAError),
    ),
    _Method(_BZIP2, b"BZh", "bunzip2", "bz2", lambda bz2: (bz2.BZ2Decompressor(), OSError)),
    _Method("lz4", b"\x04\x22\x4d\x18", "unlz4", "lz4.frame", lambda lz4: (lz4.LZ4FrameDecompressor(), RuntimeError)),
)
_BZIP2_BLOCKS: Final = (b"1AY&SY", b"\x17rE8P\x90")
"""What follows the level of bzip2: the first block, or the end."""


def claims(data: bytes) -> bool:
    """Magic bytes, those of gzip with the only method that there is."""
    return _method(data) is not None


def read(element: Element, budget: Budget) -> Contents:
    """One element. Raises Malformed, LimitExceeded, Unsupported."""
    method = _method(element.data)
    return Contents((Element(INSIDE, expanded(element.data, budget)),), format=method and method.name)


def expanded(data: bytes, budget: Budget) -> bytes:
    """What is inside; its size and checksum are compared with what the file says. Raises Malformed, LimitExceeded,
    Unsupported."""
    method = _method(data)
    if method is None:
        raise Malformed("is not a compressed file", where=NAME)
    reader, damaged = method.begin(import_module(method.module))
    found = BytesIO()
    for at in range(0, len(data), _READ_CHUNK):
        try:
            for piece in _expanded(reader, data[at : at + _READ_CHUNK]):
                budget.charge_expansion(len(piece), method.name)
                found.write(piece)
        except damaged as error:
            raise _refused(method, str(error)) from None
        if reader.eof:
            if reader.unused_data or at + _READ_CHUNK < len(data):
                hint = f"expand it with {method.program} first"
                raise Malformed("has several members, or more behind its end", where=method.name, hint=hint)
            return found.getvalue()
    raise Malformed("was cut off: it ends before what is inside does", where=method.name, hint=_AGAIN)


def _expanded(reader: Any, piece: bytes) -> Iterator[bytes]:
    if not hasattr(reader, "needs_input"):
        yield reader.decompress(piece)
        return
    yield reader.decompress(piece, _EXPANDED_AT_ONCE)
    while not (reader.eof or reader.needs_input):
        yield reader.decompress(b"", _EXPANDED_AT_ONCE)


def _method(data: bytes) -> _Method | None:
    for method in _METHODS:
        if data[: len(method.magic)] == method.magic and (method.name != _BZIP2 or data[4:10] in _BZIP2_BLOCKS):
            return method
    return None


def _refused(method: _Method, why: str) -> Malformed | Unsupported:
    if "memory" in why.lower():  # as liblzma and libzstd say it
        hint = f"expand it with {method.program} first"
        return Unsupported("demands more memory than symd takes to expand a file", where=method.name, hint=hint)
    return Malformed(f"is damaged: {why.rpartition(': ')[2]}", where=method.name, hint=_AGAIN)
