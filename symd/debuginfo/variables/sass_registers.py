"""Where the PTX registers of a CUDA debug build are in the machine's registers: ``.nv_debug_info_reg_sass``.

For each function: its name and NUL, u32 count, then records of u32 piece, PTX register name and NUL, u32 location
(class in the high byte: 5 general, 2 predicate), u32 first and u32 last code offset.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

_CLASSES = {5: "R", 2: "P"}
_RECORD = struct.Struct("<III")


def machine_registers(section: bytes, function: str, offset: int) -> dict[str, tuple[str, ...]]:
    """PTX register to machine registers, lowest piece first, of those that hold one at ``offset`` of the function's
    text. Damaged data ends the list early."""
    found: dict[str, dict[int, str]] = {}
    for name, piece, register, location, start, after in _records(section):
        if name == function and start <= offset < after:
            letter = _CLASSES.get(location >> 24, f"class{location >> 24}:")
            found.setdefault(register, {})[piece] = f"{letter}{location & 0xFFFFFF}"
    return {register: tuple(pieces[piece] for piece in sorted(pieces)) for register, pieces in found.items()}


def _records(data: bytes) -> Iterator[tuple[str, int, str, int, int, int]]:
    at = 0
    while at < len(data):
        end = data.find(b"\0", at)
        if end < 0 or end + 5 > len(data):
            return
        function = data[at:end].decode("utf-8", "replace")
        count = int.from_bytes(data[end + 1 : end + 5], "little")
        at = end + 5
        for _ in range(count):
            end = data.find(b"\0", at + 4)
            if end < 0 or end + 1 + _RECORD.size > len(data):
                return
            piece = int.from_bytes(data[at : at + 4], "little")
            location, start, after = _RECORD.unpack_from(data, end + 1)
            yield function, piece, data[at + 4 : end].decode("utf-8", "replace"), location, start, after
            at = end + 1 + _RECORD.size
