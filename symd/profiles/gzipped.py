"""gzip, bounded on the way in and without a time stamp on the way out, so that equal profiles are equal bytes."""

from __future__ import annotations

import gzip
import zlib

from symd.config import Limits
from symd.errors import LimitExceeded, Malformed
from symd.formats.budget import beyond, exceeded

MAGIC = b"\x1f\x8b"
EXPANDED_PIECE_BYTES = 1 << 24
"""Bytes expanded at a time, after each of which the budget is looked at."""
PROFILE_RATIO = 100
"""Bytes that a byte of a compressed profile may expand to."""
_ALWAYS = 1 << 20
"""Bytes that any file may expand to: a few equal lines compress better than a profile does."""


def compressed(data: bytes) -> bool:
    return data.startswith(MAGIC)


def expand(data: bytes, limits: Limits) -> bytes:
    """Every member, one after another. Raises Malformed, and LimitExceeded before the memory is spent."""
    left, too_large = expansion_budget(len(data), limits)
    pieces: list[bytes] = []
    while data:
        machine = zlib.decompressobj(wbits=31)
        while not machine.eof:
            try:
                piece = machine.decompress(data, min(left + 1, EXPANDED_PIECE_BYTES))
            except zlib.error as error:
                raise Malformed(f"gzip data is damaged: {error}", where="the profile") from error
            data = machine.unconsumed_tail
            left -= len(piece)
            if left < 0:
                raise too_large
            if not piece and not data and not machine.eof:
                raise Malformed(
                    "gzip data ends too early",
                    where="the profile",
                    hint="the file is cut off: copy it again, or let the profiler that writes it end first",
                )
            pieces.append(piece)
        data = machine.unused_data
    return b"".join(pieces)


def expansion_budget(stored: int, limits: Limits) -> tuple[int, LimitExceeded]:
    """The bytes that so many stored ones may expand to, and the error of those that would be more."""
    most, by_ratio = limits.profile_size, max(_ALWAYS, stored * PROFILE_RATIO)
    if most < by_ratio:
        what = f"expands to more than profile_size = {most} bytes"
        return most, exceeded("profile_size", most, what, "the profile")
    what = f"{stored} bytes expand to more than {by_ratio}"
    return by_ratio, beyond("profile_ratio", PROFILE_RATIO, what, "the profile")


def compress(data: bytes) -> bytes:
    return gzip.compress(data, 6, mtime=0)
