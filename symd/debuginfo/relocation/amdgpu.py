"""Relocatable AMDGPU objects: every address and every offset in their debug sections is a relocation: SHT_RELA for
amdhsa, SHT_REL, whose addends are in place, for other systems. With one section a function all line sequences begin
at 0, and only the relocation's symbol says whose they are.

Source: LLVM's AMDGPU usage guide, "Relocation Records"."""

from __future__ import annotations

from enum import IntEnum

from symd.core.relocations import SymbolValues
from symd.debuginfo.layout import FIRST_BASE, LinearLayout
from symd.debuginfo.relocation import entries
from symd.formats.elf.constants import SHN_LORESERVE, SHT_REL, SHT_RELA, SHT_SYMTAB
from symd.model.code import CodeObject, Section


class RAmdgpu(IntEnum):
    """Relocation types of debug data. S is the symbol's value, A the addend."""

    R_AMDGPU_NONE = 0
    R_AMDGPU_ABS32_LO = 1
    """The low word of S + A."""
    R_AMDGPU_ABS64 = 3
    """S + A in 64 bits."""
    R_AMDGPU_ABS32 = 6
    """S + A in 32 bits."""


_WIDTHS = {
    int(RAmdgpu.R_AMDGPU_NONE): 0,
    int(RAmdgpu.R_AMDGPU_ABS32_LO): 4,
    int(RAmdgpu.R_AMDGPU_ABS64): 8,
    int(RAmdgpu.R_AMDGPU_ABS32): 4,
}
"""Bytes that each type writes."""


def relocate(code: CodeObject, layout: LinearLayout) -> dict[str, bytes]:
    """Debug sections with S + A stored at every relocated place; S is a linear address of the layout for a symbol in
    text, an offset for one in another section. Debug sections that share a name (one a COMDAT group) are put end to
    end, and offsets into them moved along. Raises Malformed and Unsupported rather than leave a relocation out."""
    debug = [section for section in code.sections if section.name.startswith(".debug_")]
    starts = _starts(debug)
    symbols = _symbol_values(code, layout, starts)
    content: dict[str, list[bytearray]] = {}
    tables: dict[
        int, list[Section]
    ] = {}  # by the section that they are for: names repeat where there are COMDAT groups
    for section in code.sections:
        if section.type in (SHT_RELA, SHT_REL):
            tables.setdefault(section.info, []).append(section)
    for section in debug:
        data = bytearray(section.data)
        for table in tables.get(section.index, ()):
            entries.opened(table).apply(data, table.name, _WIDTHS, symbols, (FIRST_BASE, 2 * FIRST_BASE))
        content.setdefault(section.name, []).append(data)
    return {name: b"".join(pieces) for name, pieces in content.items()}


def _starts(debug: list[Section]) -> dict[int, int]:
    """Section number to its place among those of its name."""
    starts: dict[int, int] = {}
    sizes: dict[str, int] = {}
    for section in debug:
        starts[section.index] = sizes.get(section.name, 0)
        sizes[section.name] = starts[section.index] + len(section.data)
    return starts


def _symbol_values(code: CodeObject, layout: LinearLayout, starts: dict[int, int]) -> SymbolValues:
    """S of every symbol of .symtab."""
    table = next((section for section in code.sections if section.type == SHT_SYMTAB), None)
    bases = {number: base for number, base in (starts | layout.bases()).items() if number < SHN_LORESERVE}
    return SymbolValues(table.data if table else b"", table.name if table else "", 64, bases)
