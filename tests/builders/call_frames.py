"""Call frame information stated as entries with their instructions (DWARF 5, 6.4), and the rows of entries.

frames = CallFrameSection([Function(0x1000, 0x40, [def_cfa(64, 0), advance(4), undefined(16)])])
frames.build()
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from symd.debuginfo.dwarf.call_frames import CallFrames, FrameRow, FunctionEntry
from tests.builders.leb128 import sleb, uleb


@dataclass
class Function:
    """The code from ``start`` on, ``size`` bytes, and its instructions."""

    start: int
    size: int
    program: Sequence[bytes] = ()


@dataclass
class CallFrameSection:
    """One common entry and those of its functions."""

    functions: Sequence[Function]
    initial: Sequence[bytes] = ()
    version: int = 4
    augmentation: bytes = b""
    code_factor: int = 4
    data_factor: int = 4
    return_register: int = 16
    wide: bool = False
    _content: bytearray = field(default_factory=bytearray)

    def build(self) -> bytes:
        self._content = bytearray()
        self._entry(None, self._common())
        for function in self.functions:
            self._entry(0, self._described(function))
        return bytes(self._content)

    def _entry(self, common: int | None, content: bytes) -> None:
        width = 8 if self.wide else 4
        content += b"\0" * (-(len(content) + width) % 8)
        pointer = (1 << 8 * width) - 1 if common is None else common
        length = (
            struct.pack("<IQ", 0xFFFFFFFF, width + len(content)) if self.wide else struct.pack("<I", 4 + len(content))
        )
        self._content += length + pointer.to_bytes(width, "little") + content

    def _common(self) -> bytes:
        content = bytes((self.version,)) + self.augmentation + b"\0"
        if self.version >= 4:
            content += bytes((8, 0))
        content += uleb(self.code_factor) + sleb(self.data_factor)
        content += bytes((self.return_register,)) if self.version == 1 else uleb(self.return_register)
        return content + b"".join(self.initial)

    def _described(self, function: Function) -> bytes:
        return struct.pack("<QQ", function.start, function.size) + b"".join(function.program)


def advance(count: int) -> bytes:
    """Go on ``count`` code units."""
    if count < 0x40:
        return bytes((0x40 | count,))
    return b"\x02" + struct.pack("<B", count) if count < 0x100 else b"\x04" + struct.pack("<I", count)


def def_cfa(register: int, offset: int) -> bytes:
    return b"\x0c" + uleb(register) + uleb(offset)


def def_cfa_register(register: int) -> bytes:
    return b"\x0d" + uleb(register)


def def_cfa_offset(offset: int) -> bytes:
    return b"\x0e" + uleb(offset)


def def_cfa_expression(expression: bytes) -> bytes:
    return b"\x0f" + uleb(len(expression)) + expression


def def_aspace_cfa(register: int, offset: int, space: int) -> bytes:
    return b"\x30" + uleb(register) + uleb(offset) + uleb(space)


def undefined(register: int) -> bytes:
    return b"\x07" + uleb(register)


def same_value(register: int) -> bytes:
    return b"\x08" + uleb(register)


def in_register(register: int, other: int) -> bytes:
    return b"\x09" + uleb(register) + uleb(other)


def offset_extended(register: int, factored: int) -> bytes:
    return b"\x05" + uleb(register) + uleb(factored)


def expression(register: int, content: bytes) -> bytes:
    return b"\x10" + uleb(register) + uleb(len(content)) + content


def val_expression(register: int, content: bytes) -> bytes:
    return b"\x16" + uleb(register) + uleb(len(content)) + content


REMEMBER, RESTORE = b"\x0a", b"\x0b"


def rows_of(frames: CallFrames, entry: FunctionEntry) -> Iterator[FrameRow]:
    """All rows of an entry that have bytes, also where another entry begins at the same address."""
    state = frames._initial(entry)
    for reached in frames._instructions(state, entry.common, entry.program):
        if reached > state.location:
            yield state.row(entry, state.location, reached)
        state.location = reached
    yield state.row(entry, state.location, entry.end)
