"""How many fields a message has, counted before it is read: a field of two bytes becomes an object of a hundred, and all of them are
made in one go, while nothing else runs. Counting is plain Python, which lets others in between.

https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from typing import Any

from symd.errors import LimitExceeded

COUNTED_BYTES = 1 << 20
"""Messages of fewer bytes are not counted: even where each field has two, they are read quickly."""
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


def check_fields(data: bytes, kind: Any, most: int) -> None:
    """Raises ``LimitExceeded`` where a message of the type that the descriptor ``kind`` describes, or a large one in it, has more than ``most`` fields. What is no
    message is left to whoever reads it."""
    _count(data, 0, len(data), kind, most, most)


def _count(data: bytes, at: int, end: int, kind: Any, left: int, most: int) -> int:
    """How many more fields there may be after those of ``data[at:end]``."""
    messages = {field.number: field.message_type for field in kind.fields if field.message_type is not None}
    while at < end:
        left -= 1
        if left < 0:
            raise LimitExceeded(
                f"the request has more than {most} fields",
                hint="send several, or a column",
                metadata={"limit": "request_fields", "value": str(most)},
            )
        tag, at = _varint(data, at, end)
        wire = tag & 7
        if wire == _LENGTH:
            size, at = _varint(data, at, end)
            inner = messages.get(tag >> 3)
            if inner is not None and size >= COUNTED_BYTES:
                left = _count(data, at, min(at + size, end), inner, left, most)
            at += size
        elif wire == _VARINT:
            _, at = _varint(data, at, end)
        elif wire == _FIXED64:
            at += 8
        elif wire == _FIXED32:
            at += 4
        else:
            return left  # a group, or nothing
    return left


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 63:
            break
    return value, at
