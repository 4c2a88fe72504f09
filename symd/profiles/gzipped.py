"""gzip, bounded on the way in and without a time stamp on the way out, so that equal profiles are equal bytes."""

from __future__ import annotations

import gzip
import zlib

from symd.config import Limits
from symd.errors import LimitExceeded, Malformed

MAGIC = b"\x1f\x8b"
EXPANDED_PIECE_BYTES = 1 << 24
"""Bytes expanded at a time, after each of which the budget is looked at."""


def compressed(data: bytes) -> bool:
    return data.startswith(MAGIC)


def expand(data: bytes, limits: Limits) -> bytes:
    """Every member, one after another. Raises Malformed, and LimitExceeded before the memory is spent."""
    budget = min(limits.expansion, max(len(data), 64) * limits.expansion_ratio)
    pieces: list[bytes] = []
    while data:
        machine = zlib.decompressobj(wbits=31)
        while not machine.eof:
            try:
                piece = machine.decompress(data, EXPANDED_PIECE_BYTES)
            except zlib.error as error:
                raise Malformed(f"gzip data is damaged: {error}", where="the profile") from error
            data = machine.unconsumed_tail
            budget -= len(piece)
            if budget < 0:
                raise _over(limits)
            if not piece and not data and not machine.eof:
                raise Malformed("gzip data ends too early", where="the profile")
            pieces.append(piece)
        data = machine.unused_data
    return b"".join(pieces)


def _over(limits: Limits) -> LimitExceeded:
    return LimitExceeded(
        f"the profile expands past expansion = {limits.expansion} or expansion_ratio = {limits.expansion_ratio}",
        hint="raise the limit if the file is to be trusted",
        metadata={"limit": "expansion"},
    )


def compress(data: bytes) -> bytes:
    return gzip.compress(data, 6, mtime=0)
