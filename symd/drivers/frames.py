"""What parent and child tell each other. The request is two files in the child's working directory. The answer is frames
on one pipe: each call before it is made, byte strings, and last one JSON value. A frame is one kind byte, the payload's length as a little-endian u64, and the payload."""

from __future__ import annotations

import os
import struct
from typing import Final

REQUEST: Final = "request.json"
INPUT: Final = "input.bin"

CALL: Final = b"C"
"""The name of the driver function that is called next."""
BLOB: Final = b"B"
"""A byte string that belongs to the value that follows."""
VALUE: Final = b"V"
"""The one answer, a JSON object; nothing comes after it."""

_HEAD: Final = struct.Struct("<cQ")


def write_frame(descriptor: int, kind: bytes, payload: bytes) -> None:
    """Write one frame whole."""
    for part in (_HEAD.pack(kind, len(payload)), payload):
        view = memoryview(part)
        while view:
            view = view[os.write(descriptor, view) :]


def read_frames(data: bytes | bytearray) -> list[tuple[bytes, bytes]]:
    """The whole frames at the start of ``data``; a last frame that was cut off is left out.

    Raises ValueError where a frame starts with a kind that does not exist.
    """
    frames = []
    at = 0
    while at + _HEAD.size <= len(data):
        kind, length = _HEAD.unpack_from(data, at)
        if kind not in (CALL, BLOB, VALUE):
            raise ValueError(f"byte {at} starts no frame")
        end = at + _HEAD.size + length
        if end > len(data):
            break
        frames.append((kind, bytes(data[at + _HEAD.size : end])))
        at = end
    return frames
