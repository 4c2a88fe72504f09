"""Compressed sections, and bounded decompression for whoever else compresses: the size is checked against the budget before
a byte is produced, and held to afterwards.

Source: System V ABI, chapter 4, "Section Compression"; binutils for the older ``.zdebug_`` sections."""

from __future__ import annotations

import struct
import zlib

from symd.errors import Malformed, Unsupported
from symd.formats.budget import Budget
from symd.formats.elf.constants import ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD, SHF_COMPRESSED, SHT_NOBITS
from symd.model.code import Section

_CHDR_64 = struct.Struct("<I4xQ8x")
_CHDR_32 = struct.Struct("<II4x")
ZDEBUG = ".zdebug_"
"""What the names of sections begin with that are compressed without a flag."""
_ZDEBUG_HEADER = 12
"""Bytes in front of the zlib stream of a ``.zdebug_`` section: "ZLIB", then the size as a big-endian u64."""


def decompressed(section: Section, bits: int, budget: Budget, where: str) -> Section:
    """The section with its content expanded, under its plain name; the same one where it is not compressed."""
    if section.flags & SHF_COMPRESSED and section.type != SHT_NOBITS:
        content = _behind_header(section.data, bits, budget, where)
        return section.changed(content=content, size=len(content), flags=section.flags & ~SHF_COMPRESSED)
    if section.name.startswith(ZDEBUG):
        data = section.data
        if data[:4] == b"ZLIB" and len(data) >= _ZDEBUG_HEADER:
            content = inflate(data[_ZDEBUG_HEADER:], int.from_bytes(data[4:12], "big"), budget, where)
            return section.changed(name="." + section.name[2:], content=content, size=len(content))
    return section


def _behind_header(data: bytes, bits: int, budget: Budget, where: str) -> bytes:
    """What the stream after an Elf32_Chdr or Elf64_Chdr expands to."""
    layout = _CHDR_64 if bits == 64 else _CHDR_32
    if len(data) < layout.size:
        raise Malformed("is marked compressed and is too short for a compression header", where=where)
    kind, size = layout.unpack_from(data)
    if kind == ELFCOMPRESS_ZLIB:
        return inflate(data[layout.size :], size, budget, where)
    if kind == ELFCOMPRESS_ZSTD:
        return expand_zstd(data[layout.size :], size, budget, where)
    raise Unsupported(f"compression type {kind} is not known (1 is zlib, 2 is zstd)", where=where)


def inflate(data: bytes, size: int, budget: Budget, where: str) -> bytes:
    """A zlib stream that must expand to exactly ``size`` bytes."""
    budget.charge_expansion(size, where)
    machine = zlib.decompressobj()
    try:
        result = machine.decompress(data, size + 1)
    except zlib.error as error:
        raise Malformed(f"zlib data is damaged: {error}", where=where) from error
    return _exactly(result, size, "zlib", where)


def zstd_size(data: bytes, where: str) -> int:
    """The bytes to which a zstd frame expands, as it says itself. Raises Malformed."""
    import zstandard  # noqa: PLC0415 - few modules have such a part

    try:
        size: int = zstandard.get_frame_parameters(data).content_size
    except zstandard.ZstdError as error:
        raise Malformed(f"zstd data is damaged: {error}", where=where) from error
    if size == zstandard.CONTENTSIZE_UNKNOWN:
        raise Malformed("zstd data does not say to how many bytes it expands", where=where)
    return size


def expand_zstd(data: bytes | memoryview, size: int, budget: Budget, where: str) -> bytes:
    """A zstd frame that must expand to exactly ``size`` bytes."""
    import zstandard  # noqa: PLC0415 - few modules have such a part

    budget.charge_expansion(size, where)
    try:
        with zstandard.ZstdDecompressor().stream_reader(data) as reader:
            result = reader.read(size + 1)
    except zstandard.ZstdError as error:
        raise Malformed(f"zstd data is damaged: {error}", where=where) from error
    return _exactly(result, size, "zstd", where)


def _exactly(result: bytes, size: int, method: str, where: str) -> bytes:
    if len(result) != size:
        found = "more" if len(result) > size else str(len(result))
        raise Malformed(f"{method} data should expand to {size} bytes and gives {found}", where=where)
    return result
