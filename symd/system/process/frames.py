"""Messages between symd and its children on a pipe: one kind byte, the payload's length as a little-endian u64, the
payload. A child asks the kernel to end it with its parent (``die_with``), as nobody else would end one that hangs or is
at work.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import Final, Protocol

CALL: Final = b"C"
"""The name of the function that the child calls next, so that its death can be blamed on that."""
BYTES: Final = b"B"
"""A byte string."""
JSON: Final = b"J"
"""One JSON object, UTF-8."""
ERROR: Final = b"E"
"""A SymdError as ``symd.errors.error_to_dict`` writes it, in JSON."""
MEMORY: Final = b"M"
"""Empty: the child was refused memory."""
DEFECT: Final = b"D"
"""An exception that nobody expected, as the fields of ``ChildException`` in JSON."""
LAST: Final = b"L"
"""Empty: the frame that follows is the child's last answer, it has become too large to be kept."""

HEAD: Final = struct.Struct("<cQ")
_KINDS: Final = frozenset((CALL, BYTES, JSON, ERROR, MEMORY, DEFECT, LAST))


def write_frame(descriptor: int, kind: bytes, payload: bytes) -> None:
    """Write one frame whole. Raises OSError when the other end is closed."""
    for part in (HEAD.pack(kind, len(payload)), payload):
        view = memoryview(part)
        while view:
            view = view[os.write(descriptor, view) :]


class Source(Protocol):
    """What frames are read from."""

    def read(self, size: int, /) -> bytes:
        """Return ``size`` bytes, or what is left at the end of the stream."""
        ...


def read_frame(source: Source, largest: int) -> tuple[bytes, bytes] | None:
    """The next (kind, payload); None when the stream ends before the frame does.

    Raises ValueError for a kind that does not exist and for a payload of more than ``largest`` bytes.
    """
    head = source.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    kind, length = HEAD.unpack(head)
    if kind not in _KINDS or length > largest:
        raise ValueError(f"no frame, or one of {length} bytes where {largest} are allowed")
    payload = source.read(length)
    return (kind, payload) if len(payload) == length else None


def read_frames(data: bytes | bytearray) -> list[tuple[bytes, bytes]]:
    """The whole frames at the start of ``data``; a last frame that was cut off is left out.

    Raises ValueError where a frame starts with a kind that does not exist.
    """
    frames = []
    start = 0
    while start + HEAD.size <= len(data):
        kind, length = HEAD.unpack_from(data, start)
        if kind not in _KINDS:
            raise ValueError(f"byte {start} starts no frame")
        end = start + HEAD.size + length
        if end > len(data):
            break
        frames.append((kind, bytes(data[start + HEAD.size : end])))
        start = end
    return frames


_PR_SET_PDEATHSIG: Final = 1
"""prctl(2). The signal comes when the *thread* ends that started the child, so that it must be one that stays."""
_SIGKILL: Final = 9
"""signal(7)."""


def die_with(parent: int) -> None:
    """Called in the child: be killed when ``parent``, the process that started it, ends; end at once where it has
    ended."""
    ctypes.CDLL(None).prctl(ctypes.c_int(_PR_SET_PDEATHSIG), ctypes.c_ulong(_SIGKILL))
    if os.getppid() != parent:
        os._exit(1)
