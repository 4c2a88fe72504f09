"""Which debug data an image has, from headers alone."""

from __future__ import annotations

import struct

import pytest

from symd.formats.elf.contents import debug_scheme
from symd.model.code import DebugScheme, Section

V2 = struct.pack("<BBbBB", 1, 1, -5, 14, 10) + bytes(9) + b"\0\0"
"""What follows header_length in version 2, without directories and files."""


def table(program: bytes, version: int = 2, *, wide: bool = False) -> bytes:
    offset = "<Q" if wide else "<I"
    sizes = b"\x08\0" if version >= 5 else b""
    body = struct.pack("<H", version) + sizes + struct.pack(offset, len(V2)) + V2 + program
    return (b"\xff\xff\xff\xff" if wide else b"") + struct.pack(offset, len(body)) + body


def scheme(lines: bytes) -> DebugScheme:
    return debug_scheme([Section(1, ".debug_line", 1, 0, 0, len(lines), lines)])


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("version", [2, 4, 5])
def test_line_tables_without_a_program_are_no_debug_data(version: int, wide: bool) -> None:
    empty, filled = table(b"", version, wide=wide), table(b"\0\1\1", version, wide=wide)
    assert scheme(b"") is scheme(empty) is scheme(empty * 2) is DebugScheme.NONE
    assert scheme(filled) is scheme(empty + filled) is scheme(filled + empty) is DebugScheme.LINE_ONLY


@pytest.mark.parametrize("cut", range(1, 20))
def test_what_cannot_be_told_is_left_to_who_decodes_it(cut: int) -> None:
    assert scheme(table(b"")[:-cut]) is DebugScheme.LINE_ONLY
