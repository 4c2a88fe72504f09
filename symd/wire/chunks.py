"""Bytes in chunks that fit a message."""

from __future__ import annotations

from collections.abc import Iterator


def chunks_of(data: bytes, size: int) -> Iterator[bytes]:
    """``data`` in chunks of ``size`` bytes; none when it is empty."""
    view = memoryview(data)
    for start in range(0, len(view), size):
        yield bytes(view[start : start + size])
