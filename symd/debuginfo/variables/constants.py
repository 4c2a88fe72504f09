"""Constants as text, read by the variable's type: the bytes of a float are a number, those of a struct are bytes."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

_FLOATS = {2: ("<e", np.float16), 4: ("<f", np.float32), 8: ("<d", np.float64)}
_SHOWN = 64
"""Bytes that a text gives."""
_SIGNED = frozenset({"signed", "signed_char", ""})
"""Encodings whose highest bit is a sign."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How the bytes of a value are read: a base type's encoding and size, "address" for pointers, "bytes" for what is
    no single number, "" where nothing is known."""

    encoding: str
    size: int | None = None

    def cut(self, data: bytes) -> bytes:
        """``data``, lowest byte first, without the bytes that are more than the type has."""
        size = self.size
        return data[:size] if size is not None and 0 < size < len(data) else data

    def number(self, data: bytes) -> int | None:
        """``data`` as a signed number of at most 64 bits, a float as its bits; None where the type is no single number,
        or has no bytes or more."""
        data = self.cut(data)
        if self.encoding == "bytes" or not 0 < len(data) <= 8:
            return None
        value = int.from_bytes(data, "little", signed=self.encoding in _SIGNED)
        return value - (1 << 64) if value >> 63 > 0 else value

    def text(self, data: bytes) -> str:
        """``data`` as a number of the type."""
        data = self.cut(data)
        if not data:
            return "of no bytes"
        if self.encoding == "bytes" or len(data) > 16:
            return f"bytes {data[:_SHOWN].hex(' ')}" + ("..." if len(data) > _SHOWN else "")
        if self.encoding == "float" and len(data) in _FLOATS and len(data) == self.size:
            return _float_text(data)
        number = int.from_bytes(data, "little")
        if self.encoding == "address":
            return hex(number)
        if self.encoding == "boolean":
            return "true" if number else "false"
        return str(int.from_bytes(data, "little", signed=self.encoding in _SIGNED))


def _float_text(data: bytes) -> str:
    """The shortest text that reads back as the same float of its size."""
    layout, kind = _FLOATS[len(data)]
    return str(kind(struct.unpack(layout, data)[0]))
