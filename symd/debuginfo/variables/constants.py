"""Constants as text, read by the variable's type: the bytes of a float are a number, those of a struct are bytes."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

_FLOATS = {2: ("<e", np.float16), 4: ("<f", np.float32), 8: ("<d", np.float64)}
_SHOWN = 64


@dataclass(frozen=True, slots=True)
class Reading:
    """How the bytes of a value are read: a base type's encoding and size, "address" for pointers, "bytes" for what is no
    single number, "" where nothing is known."""

    encoding: str
    size: int | None = None


def constant_text(data: bytes, reading: Reading) -> str:
    """``data``, lowest byte first, as a number of the type; more bytes than the type has are cut off."""
    size = reading.size
    if size is not None and 0 < size < len(data):
        data = data[:size]
    if not data:
        return "of no bytes"
    if reading.encoding == "bytes" or len(data) > 16:
        return f"bytes {data[:_SHOWN].hex(' ')}" + ("..." if len(data) > _SHOWN else "")
    if reading.encoding == "float" and len(data) in _FLOATS and len(data) == size:
        return _float_text(data)
    number = int.from_bytes(data, "little")
    if reading.encoding == "address":
        return hex(number)
    if reading.encoding == "boolean":
        return "true" if number else "false"
    signed = reading.encoding in ("signed", "signed_char", "")
    return str(int.from_bytes(data, "little", signed=signed))


def _float_text(data: bytes) -> str:
    """The shortest text that reads back as the same float of its size."""
    layout, kind = _FLOATS[len(data)]
    return str(kind(struct.unpack(layout, data)[0]))
