"""IGC's per-kernel ELF images. In the debug container only the line program's start address is left to relocate: its
place holds 0 and the addend the true start, which is not 0 in a library's kernels. The dumped variant (machine 62) has
all of its addresses and section offsets in R_X86_64_64 and R_X86_64_32."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import IntEnum

import numpy as np

from symd.debuginfo.layout import LinearLayout
from symd.debuginfo.relocation import entries
from symd.elf import symbol_columns
from symd.elf.constants import SHT_REL, SHT_RELA
from symd.errors import Unsupported
from symd.model.code import CodeObject, RelocationScheme, Section
from symd.model.columns import U64, distinct


class RX8664(IntEnum):
    """Relocation types of debug data on x86-64, which IGC borrows. Source: System V ABI, AMD64 supplement, 4.4.1."""

    R_X86_64_64 = 1
    R_X86_64_32 = 10
    R_X86_64_32S = 11


_WIDTHS: Mapping[RelocationScheme, Mapping[int, int]] = {
    RelocationScheme.IGC: {RX8664.R_X86_64_64: 8},
    RelocationScheme.IGC_DUMP: {RX8664.R_X86_64_64: 8, RX8664.R_X86_64_32: 4, RX8664.R_X86_64_32S: 4},
}
"""Bytes that each type writes."""
_RELA = struct.Struct("<QQq")
_SYMBOL = struct.Struct("<6xHQ8x")
"""Section and value of an entry of the symbol table."""
_ADDRESS = (1 << 64) - 1


def relocate(code: CodeObject, layout: LinearLayout) -> dict[str, bytes]:
    """Debug sections with symbol + addend stored at every relocated place."""
    tables = {section.name for section in code.sections if section.type in (SHT_RELA, SHT_REL)}
    return {
        section.name: _section(code, layout, section)
        if tables and not tables.isdisjoint((f".rela{section.name}", f".rel{section.name}"))
        else section.data
        for section in code.sections
        if section.name.startswith(".debug_")
    }


def _section(code: CodeObject, layout: LinearLayout, section: Section) -> bytes:
    data = bytearray(section.data)
    tables = entries.tables_for(code, section)
    if len(tables) == 1 and _few_applied(code, layout, data, tables[0]):
        return bytes(data)
    for table in tables:
        found = entries.read(table)
        values = _symbol_values(code, layout, table)
        if len(found.symbol) and int(found.symbol.max()) >= len(values):
            raise Unsupported("a relocation names a symbol that is not there", where=table.name)
        absolute = values[found.symbol] + found.addend.astype(np.uint64)
        for kind in distinct(found.type).tolist():
            width = _WIDTHS[code.relocation].get(kind)
            if width is None:
                raise Unsupported(f"relocation type {kind} of {code.format} is not known", where=table.name)
            chosen = found.type == kind
            entries.write(data, found.offset[chosen], absolute[chosen], width, table.name)
    return bytes(data)


def _few_applied(code: CodeObject, layout: LinearLayout, data: bytearray, table: Section) -> bool:
    """Apply a table of one entry or two without NumPy's fixed costs. False, and nothing done, for another one, and where
    anything is unusual."""
    symbols = code.sections[table.link].data if table.link < len(code.sections) else b""
    if table.type != SHT_RELA or len(table.data) not in (_RELA.size, 2 * _RELA.size) or len(symbols) % _SYMBOL.size:
        return False
    found = []
    for offset, info, addend in _RELA.iter_unpack(table.data):
        width, number = _WIDTHS[code.relocation].get(info & 0xFFFFFFFF), (info >> 32) * _SYMBOL.size
        if width is None or number >= len(symbols) or offset + width > len(data):
            return False
        section, value = _SYMBOL.unpack_from(symbols, number)
        base = None if code.linked else layout.base_of(section)
        found.append((offset, width, ((base or 0) + value + addend) & _ADDRESS))
    if len({width for _, width, _ in found}) > 1:
        return False
    for offset, width, value in found:
        data[offset : offset + width] = value.to_bytes(8, "little")[:width]
    return True


def _symbol_values(code: CodeObject, layout: LinearLayout, table: Section) -> U64:
    """Linear address of every symbol: the layout's for text, the plain value (a section offset) for anything else."""
    symbols = code.sections[table.link] if table.link < len(code.sections) else None
    if symbols is None:
        return np.zeros(0, np.uint64)
    raw = symbol_columns(symbols)
    bases = layout.bases_of_sections() if not code.linked else np.zeros(1, np.uint64)
    values: U64 = bases[np.minimum(raw["section"], len(bases) - 1)] + raw["value"]
    return values
