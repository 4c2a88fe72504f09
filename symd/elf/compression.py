"""Bounded decompression: the size is checked against the budget before a byte is produced, and held to afterwards."""

from __future__ import annotations

import zlib

from symd.budget import Budget
from symd.errors import Malformed


def inflate(data: bytes, size: int, budget: Budget, where: str) -> bytes:
    """A zlib stream that must expand to exactly ``size`` bytes."""
    budget.expand(len(data), size, where)
    machine = zlib.decompressobj()
    try:
        result = machine.decompress(data, size + 1)
    except zlib.error as error:
        raise Malformed(f"zlib data is damaged: {error}", where=where) from error
    return _exactly(result, size, "zlib", where)


def expand_zstd(data: bytes, size: int, budget: Budget, where: str) -> bytes:
    """A zstd frame that must expand to exactly ``size`` bytes."""
    import zstandard  # noqa: PLC0415 - few modules have such a part

    budget.expand(len(data), size, where)
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
