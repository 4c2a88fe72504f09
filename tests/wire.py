"""Protocol buffers put together field by field (protobuf.dev/programming-guides/encoding), for messages that no generated code would write."""

from __future__ import annotations


def number_field(number: int, value: int) -> bytes:
    """A varint field; b"" for 0, which is what an absent field means."""
    return _varint(number << 3) + _varint(value) if value else b""


def length_field(number: int, content: bytes) -> bytes:
    """A field of text, bytes or a message."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    groups = [number >> shift & 127 for shift in range(0, max(number.bit_length(), 1), 7)]
    return bytes([*(group | 128 for group in groups[:-1]), groups[-1]])
