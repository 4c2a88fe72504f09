"""Cubins as LLVM can read them: it does not know their relocations, so each is stored by hand. Written with struct alone."""

from __future__ import annotations

import struct

_RELA, _SYMTAB = 4, 2
_WIDTHS = {1: 4, 2: 8, 3: 4, 4: 8}
"""R_CUDA_32, R_CUDA_64, R_CUDA_G32, R_CUDA_G64."""


def relocated(data: bytes) -> bytes:
    """The same ELF with value of the symbol + addend stored wherever a RELA entry of a debug section says so; functions
    begin at 0. REL tables have their addends in place, and are left alone: the symbols are functions, worth 0."""
    image = bytearray(data)
    headers = _headers(data)
    names = [_name(data, header) for header in headers]
    symbols = next(header for header in headers if header[1] == _SYMTAB)
    for header, name in zip(headers, names, strict=True):
        if header[1] != _RELA or not name.startswith(".rela.debug_"):
            continue
        base = headers[names.index(name.removeprefix(".rela"))][4]
        for at in range(header[4], header[4] + header[5], 24):
            offset, kind, symbol, addend = struct.unpack_from("<QIIq", data, at)
            if kind in _WIDTHS:
                (value,) = struct.unpack_from("<Q", data, symbols[4] + 24 * symbol + 8)
                width = _WIDTHS[kind]
                image[base + offset : base + offset + width] = (value + addend).to_bytes(8, "little")[:width]
    return bytes(image)


def _headers(data: bytes) -> list[tuple[int, ...]]:
    """The section headers: name, type, flags, address, offset, size, ..."""
    (table,) = struct.unpack_from("<Q", data, 40)
    (count,) = struct.unpack_from("<H", data, 60)
    return [struct.unpack_from("<IIQQQQIIQQ", data, table + 64 * number) for number in range(count)]


def _name(data: bytes, header: tuple[int, ...]) -> str:
    (index,) = struct.unpack_from("<H", data, 62)
    start = _headers(data)[index][4] + header[0]
    return data[start : data.index(b"\0", start)].decode()
