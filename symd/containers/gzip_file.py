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
_AGAIN = "copy it again"


def claims(data: bytes) -> bool:
    """The magic bytes, with the only method that there is."""
    return data[:3] == _MAGIC


def read(element: Element, budget: Budget) -> Contents:
    """One element. Raises Malformed, LimitExceeded."""
    return Contents((Element(INSIDE, expanded(element.data, budget)),))


def expanded(data: bytes, budget: Budget) -> bytes:
    """What is inside; zlib compares its size and checksum with what the trailer says. Raises Malformed, LimitExceeded."""
    if len(data) < _LEAST:
        raise Malformed(f"{len(data)} bytes are too few for gzip", where=NAME, hint=_AGAIN)
    most = max(budget.expansion_left, 0)
    reader = zlib.decompressobj(wbits=31)
    try:
        found = reader.decompress(data[:], most + 1)
    except zlib.error as error:
        raise Malformed(f"is damaged: {str(error).rpartition(': ')[2]}", where=NAME, hint=_AGAIN) from None
    budget.charge_expansion(len(found), NAME)
    if not reader.eof:
        raise Malformed("was cut off: it ends before what is inside does", where=NAME, hint=_AGAIN)
    if reader.unused_data:
        raise Malformed("has several members, or more behind its end", where=NAME, hint="expand it with gunzip first")
    return found
