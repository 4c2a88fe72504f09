"""gzip, bounded on the way in and without a time stamp on the way out, so that equal profiles are equal bytes."""

from __future__ import annotations

import gzip
import zlib

from symd.config import MIB, Limits
from symd.errors import Malformed
from symd.formats.budget import exceeded

MAGIC = b"\x1f\x8b"
EXPANDED_PIECE_BYTES = 1 << 24
"""Bytes expanded at a time, after each of which the budget is looked at."""
_SHARE = 12
"""Any file may have this part of the records that a mebibyte may have: what compresses no further has all of them."""
_ALWAYS = 1 << 20
"""Bytes that any file may expand to: a few equal lines compress better than a profile does."""


def compressed(data: bytes) -> bool:
    return data.startswith(MAGIC)


def expand(data: bytes, limits: Limits) -> bytes:
    """Every member, one after another. Raises Malformed, and LimitExceeded before the memory is spent."""
    name, budget = expansion_budget(len(data), limits)
    left = budget
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
                value = getattr(limits, name)
                raise exceeded(name, value, f"expands to more than {budget} bytes ({name} = {value})", "the profile")
            if not piece and not data and not machine.eof:
                raise Malformed("gzip data ends too early", where="the profile")
            pieces.append(piece)
        data = machine.unused_data
    return b"".join(pieces)


def limits_inside(stored: int, limits: Limits) -> Limits:
    """The limits for what so many stored bytes hold: records of nothing compress so well that their number alone says little."""
    most = limits.profile_records
    return limits._replace(profile_records=min(most, max(most // _SHARE, stored * most // MIB)))


def expansion_budget(stored: int, limits: Limits) -> tuple[str, int]:
    """The limit that holds for so many stored bytes, and the bytes that they may expand to."""
    by_ratio = max(_ALWAYS, stored * limits.profile_ratio)
    return ("profile_size", limits.profile_size) if limits.profile_size < by_ratio else ("profile_ratio", by_ratio)


def compress(data: bytes) -> bytes:
    return gzip.compress(data, 6, mtime=0)
