"""Call frame information stated as entries with their instructions (DWARF 5, 6.4; ``.eh_frame`` with augmentation "zR").

frames = CallFrameSection([Function(0x1000, 0x40, [def_cfa(64, 0), advance(4), undefined(16)])])
frames.build()
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.builders.leb128 import sleb, uleb

PCREL_SDATA4 = 0x1B


@dataclass
class Function:
    """The code from ``start`` on, ``size`` bytes, and its instructions."""

    start: int
    size: int
    program: Sequence[bytes] = ()


@dataclass
class CallFrameSection:
    """One common entry and those of its functions. ``eh`` makes it an ``.eh_frame``, loaded at ``address``."""

    functions: Sequence[Function]
    initial: Sequence[bytes] = ()
    version: int = 4
    augmentation: bytes = b""
    code_factor: int = 4
    data_factor: int = 4
    return_register: int = 16
    wide: bool = False
    eh: bool = False
    address: int = 0
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
        at = len(self._content) + (12 if self.wide else 4)
        if self.eh:
            pointer = 0 if common is None else at - common
        else:
            pointer = (1 << 8 * width) - 1 if common is None else common
        length = (
            struct.pack("<IQ", 0xFFFFFFFF, width + len(content)) if self.wide else struct.pack("<I", 4 + len(content))
        )
        self._content += length + pointer.to_bytes(width, "little") + content

    def _common(self) -> bytes:
        version = 1 if self.eh else self.version
        content = bytes((version,)) + (b"zR" if self.eh else self.augmentation) + b"\0"
        if version >= 4:
            content += bytes((8, 0))
        content += uleb(self.code_factor) + sleb(self.data_factor)
        content += bytes((self.return_register,)) if version == 1 else uleb(self.return_register)
        return content + (b"\x01" + bytes((PCREL_SDATA4,)) if self.eh else b"") + b"".join(self.initial)

    def _described(self, function: Function) -> bytes:
        if self.eh:
            here = self.address + len(self._content) + 8
            return struct.pack("<iIB", function.start - here, function.size, 0) + b"".join(function.program)
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
