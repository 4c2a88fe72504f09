"""A cubin as the driver has it after loading: device addresses in symbols and debug data, written in place.

Written against the gABI alone: nothing of symd's own relocation is in it."""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import NamedTuple

REL, RELA, SYMTAB, EXEC = 9, 4, 2, 4
WIDTHS = {1: 4, 2: 8, 3: 4, 4: 8}
"""R_CUDA_32, R_CUDA_64, R_CUDA_G32, R_CUDA_G64: the bytes that each writes."""


class _Section(NamedTuple):
    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entsize: int


class Relocated(NamedTuple):
    """The image, and the device address of each text section by its name."""

    data: bytes
    text: dict[str, int]


def relocated(cubin: bytes, base: int, *, loaded: Collection[str] | None = None) -> Relocated:
    """The text sections stand from ``base`` on, one after another: those called ``loaded``, or all. Drivers leave the others at 0 until
    somebody needs them."""
    data = bytearray(cubin)
    sections = _sections(cubin)
    bases = {
        number: at
        for number, at in _bases(sections, base).items()
        if loaded is None or _name(cubin, sections, sections[number]) in loaded
    }
    tables = [each for each in sections if each.type == SYMTAB]
    values = _place_symbols(data, tables[0], bases) if tables else []
    for table in sections:
        target = sections[table.info] if table.type in (REL, RELA) and table.info < len(sections) else None
        if target is not None and not target.flags & EXEC and _name(cubin, sections, target).startswith(".debug"):
            _apply(data, table, target, values)
    return Relocated(bytes(data), {_name(cubin, sections, sections[number]): at for number, at in bases.items()})


def _sections(data: bytes) -> list[_Section]:
    offset, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    return [_Section(*struct.unpack_from("<IIQQQQIIQQ", data, offset + 64 * number)) for number in range(count)]


def _name(data: bytes, sections: list[_Section], section: _Section) -> str:
    table = sections[struct.unpack_from("<H", data, 62)[0]]
    start = table.offset + section.name
    return data[start : data.index(b"\0", start)].decode()


def _bases(sections: list[_Section], base: int) -> dict[int, int]:
    found = {}
    for number, section in enumerate(sections):
        if section.flags & EXEC:
            found[number] = base
            base += section.size + 0x7F & ~0x7F
    return found


def _place_symbols(data: bytearray, table: _Section, bases: dict[int, int]) -> list[int | None]:
    """Add the address of its section to each symbol of text; what each is then (None: defined elsewhere)."""
    values: list[int | None] = []
    for at in range(table.offset, table.offset + table.size, 24):
        section, value = struct.unpack_from("<HQ", data, at + 6)
        value += bases.get(section, 0)
        struct.pack_into("<Q", data, at + 8, value)
        values.append(value if section else None)
    return values


def _apply(data: bytearray, table: _Section, target: _Section, values: list[int | None]) -> None:
    size = 24 if table.type == RELA else 16
    for at in range(table.offset, table.offset + table.size, size):
        offset, kind, symbol = struct.unpack_from("<QII", data, at)
        value, width = values[symbol], WIDTHS.get(kind)
        if value is None or width is None:
            continue
        place = target.offset + offset
        addend = (
            struct.unpack_from("<q", data, at + 16)[0]
            if table.type == RELA
            else int.from_bytes(data[place : place + width], "little")
        )
        data[place : place + width] = (value + addend & (1 << 8 * width) - 1).to_bytes(width, "little")
