"""Line program headers for DWARF 2 to 5 (DWARF 5, 6.2.4): what a unit of .debug_line says before its opcodes."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .leb128 import uleb

STANDARD_OPERANDS = (0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1)
"""Operand counts of the standard opcodes 1 to 12."""

CONTENT = {"path": 1, "directory": 2, "timestamp": 3, "size": 4, "md5": 5}
FORMS = {
    "string": 0x08, "line_strp": 0x1F, "strp": 0x0E, "udata": 0x0F, "data1": 0x0B, "data2": 0x05, "data4": 0x06,
    "data8": 0x07, "data16": 0x1E, "block": 0x09,
}  # fmt: skip
TEXT_FORMS = ("string", "line_strp", "strp")

Formats = tuple[tuple[str | int, str], ...]
"""Entry formats of DWARF 5: (content, form) pairs. A number as content stands for a vendor's; its value is made up."""


class File(NamedTuple):
    """An entry of the file table; ``md5`` is made from the name where the entry format wants one and it is None."""

    name: str
    directory: int = 0
    timestamp: int = 0
    size: int = 0
    md5: bytes | None = None

    @property
    def digest(self) -> bytes:
        return self.md5 or hashlib.md5(self.name.encode(), usedforsecurity=False).digest()


@dataclass(frozen=True)
class Shape:
    """The header fields that change how opcodes read. ``extra_operands`` are operand counts of unknown standard opcodes
    13, 14, ...; ``opcode_base`` follows from them unless it is given. ``trailer`` are bytes between the file table and
    the opcodes that header_length counts (NVIDIA keeps a string base there)."""

    version: int = 4
    dwarf64: bool = False
    order: str = "little"
    address_size: int = 8
    min_inst_length: int = 1
    max_ops: int = 1
    default_is_stmt: bool = True
    line_base: int = -5
    line_range: int = 14
    opcode_base: int | None = None
    extra_operands: tuple[int, ...] = ()
    directory_formats: Formats = (("path", "string"),)
    file_formats: Formats = (("path", "string"), ("directory", "udata"))
    trailer: bytes = b""

    @property
    def base(self) -> int:
        return 13 + len(self.extra_operands) if self.opcode_base is None else self.opcode_base

    @property
    def operand_counts(self) -> bytes:
        return bytes((*STANDARD_OPERANDS, *self.extra_operands)[: self.base - 1])

    @property
    def prefix(self) -> str:
        return "<" if self.order == "little" else ">"

    def offset(self, value: int) -> bytes:
        return struct.pack(self.prefix + ("Q" if self.dwarf64 else "I"), value)

    def address(self, value: int) -> bytes:
        return value.to_bytes(self.address_size, "little" if self.order == "little" else "big")


class StringPool:
    """Strings of .debug_line_str or .debug_str that this unit refers to; its first byte lies at ``base`` there."""

    def __init__(self, base: int = 0) -> None:
        self.base = base
        self.data = bytearray()
        self._places: dict[str, int] = {}

    def place(self, text: str) -> int:
        if text not in self._places:
            self._places[text] = self.base + len(self.data)
            self.data += text.encode() + b"\0"
        return self._places[text]


def _number(shape: Shape, form: str, value: int) -> bytes:
    if form == "udata":
        return uleb(value)
    if form == "block":
        body = value.to_bytes(4, "little" if shape.order == "little" else "big")
        return uleb(len(body)) + body
    size = int(form.removeprefix("data"))
    return value.to_bytes(size, "little" if shape.order == "little" else "big")


def _text(shape: Shape, form: str, text: str, pool: StringPool) -> bytes:
    return text.encode() + b"\0" if form == "string" else shape.offset(pool.place(text))


def _entry(shape: Shape, formats: Formats, file: File, pool: StringPool) -> bytes:
    out = b""
    for content, form in formats:
        if content == "path":
            out += _text(shape, form, file.name, pool)
        elif content == "md5":
            out += file.digest
        elif isinstance(content, int):
            out += _text(shape, form, "vendor", pool) if form in TEXT_FORMS else _number(shape, form, 0x2A)
        else:
            out += _number(shape, form, getattr(file, content))
    return out


def _format_table(formats: Formats) -> bytes:
    packed = (
        uleb(content if isinstance(content, int) else CONTENT[content]) + uleb(FORMS[form]) for content, form in formats
    )
    return bytes([len(formats)]) + b"".join(packed)


def old_file(file: File) -> bytes:
    """A file entry as DWARF 2 to 4 write it, in the header and in DW_LNE_define_file."""
    return file.name.encode() + b"\0" + uleb(file.directory) + uleb(file.timestamp) + uleb(file.size)


def _tables(shape: Shape, directories: Sequence[str], files: Sequence[File], pool: StringPool) -> bytes:
    if shape.version < 5:
        listed = b"".join(name.encode() + b"\0" for name in directories)
        return listed + b"\0" + b"".join(map(old_file, files)) + b"\0"
    out = _format_table(shape.directory_formats) + uleb(len(directories))
    out += b"".join(_entry(shape, shape.directory_formats, File(name), pool) for name in directories)
    out += _format_table(shape.file_formats) + uleb(len(files))
    return out + b"".join(_entry(shape, shape.file_formats, file, pool) for file in files)


def unit(
    shape: Shape, directories: Sequence[str], files: Sequence[File], opcodes: bytes, pool: StringPool
) -> tuple[bytes, int]:
    """A whole unit of .debug_line, and the offset of its first opcode."""
    fixed = struct.pack(shape.prefix + "B", shape.min_inst_length)
    fixed += bytes([shape.max_ops]) if shape.version >= 4 else b""
    fixed += struct.pack(shape.prefix + "BbBB", shape.default_is_stmt, shape.line_base, shape.line_range, shape.base)
    fixed += shape.operand_counts + _tables(shape, directories, files, pool) + shape.trailer
    sizes = bytes([shape.address_size, 0]) if shape.version >= 5 else b""
    body = struct.pack(shape.prefix + "H", shape.version) + sizes + shape.offset(len(fixed)) + fixed
    escape = b"\xff\xff\xff\xff" if shape.dwarf64 else b""
    header = escape + shape.offset(len(body) + len(opcodes)) + body
    return header + opcodes, len(header)
