"""Relocation of IGC's per-kernel ELF images. In the debug container only the line program's start address is relocated:
its place holds 0 and the addend the true start, which is not 0 in a library's kernels. The dumped variant (machine 62)
has all of its addresses and section offsets in R_X86_64_64 and R_X86_64_32.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from symd.core.relocations import SymbolValues
from symd.debuginfo.layout import LinearLayout
from symd.debuginfo.relocation import entries
from symd.formats.elf.constants import SHT_REL, SHT_RELA
from symd.model.code import CodeObject, RelocationScheme, Section


class RX8664(IntEnum):
    """Relocation types of debug data on x86-64, which IGC borrows. Source: System V ABI, AMD64 supplement, 4.4.1."""

    R_X86_64_64 = 1
    R_X86_64_32 = 10
    R_X86_64_32S = 11


_WIDTHS: Mapping[RelocationScheme, dict[int, int]] = {
    RelocationScheme.IGC: {RX8664.R_X86_64_64: 8},
    RelocationScheme.IGC_DUMP: {RX8664.R_X86_64_64: 8, RX8664.R_X86_64_32: 4, RX8664.R_X86_64_32S: 4},
}
"""Bytes that each type writes."""


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
    for table in entries.tables_for(code, section):
        entries.opened(table).apply(data, table.name, _WIDTHS[code.relocation], _symbol_values(code, layout, table))
    return bytes(data)


def _symbol_values(code: CodeObject, layout: LinearLayout, table: Section) -> SymbolValues:
    """Linear address of every symbol: the layout's for text, the plain value (a section offset) for anything else."""
    symbols = code.sections[table.link] if table.link < len(code.sections) else None
    bases = {} if code.linked else layout.bases()
    return SymbolValues(symbols.data if symbols else b"", symbols.name if symbols else table.name, 64, bases)
