"""Files that gzip made, of one member: what is inside is opened. CUDA's drivers can write core dumps so.

Source: RFC 1952."""

from __future__ import annotations

import zlib

from symd.budget import Budget
from symd.containers.format import Contents, Element
from symd.errors import Malformed

NAME = "gzip"
INSIDE = "content"
"""The nesting path's element of what is inside."""
_MAGIC = b"\x1f\x8b\x08"
_LEAST = 18
"""Bytes of header and trailer."""


def claims(data: bytes) -> bool:
    """The magic bytes, with the only method that there is."""
    return data[:3] == _MAGIC


def read(element: Element, budget: Budget) -> Contents:
    """One element. Raises Malformed, LimitExceeded."""
    return Contents((Element(INSIDE, expanded(element.data, budget)),))


def expanded(data: bytes, budget: Budget) -> bytes:
    """What is inside; zlib compares its size and checksum with what the trailer says. Raises Malformed, LimitExceeded."""
    if len(data) < _LEAST:
        raise Malformed(f"{len(data)} bytes are too few for gzip", where=NAME)
    most = min(budget.limits.expansion, max(len(data), 64) * budget.limits.expansion_ratio)
    reader = zlib.decompressobj(wbits=31)
    try:
        found = reader.decompress(data[:], most + 1)
    except zlib.error as error:
        raise Malformed(f"cannot be expanded: {error}", where=NAME) from None
    budget.charge_expansion(len(data), len(found), NAME)
    if not reader.eof or reader.unused_data:
        what = "has several members, or more behind its end" if reader.eof else "ends before what is inside does"
        raise Malformed(what, where=NAME)
    return found
