"""Relocation of cubins. Every function starts at 0, in final images too; REL tables (addend in place) and RELA tables
stand side by side, in any order, and say which function an address of .debug_line, .debug_info or .debug_loc belongs
to.

A sequence without a relocation is a function that the linker stripped: it keeps its low address and falls on no
section. Type numbers and names as cuobjdump prints them."""

from __future__ import annotations

from enum import IntEnum

from symd.core.relocations import SymbolValues
from symd.debuginfo.layout import LinearLayout
from symd.debuginfo.relocation import entries
from symd.model.code import CodeObject, Section


class RCuda(IntEnum):
    """Relocation types of debug data."""

    R_CUDA_NONE = 0
    R_CUDA_32 = 1
    R_CUDA_64 = 2
    R_CUDA_G32 = 3
    """The address of a variable in its memory space, as is R_CUDA_G64."""
    R_CUDA_G64 = 4
    R_CUDA_UNUSED_CLEAR32 = 72
    """An order to the linker: clear the place if the function is stripped. So is R_CUDA_UNUSED_CLEAR64."""
    R_CUDA_UNUSED_CLEAR64 = 73


_WIDTHS = {
    int(RCuda.R_CUDA_NONE): 0,
    int(RCuda.R_CUDA_32): 4,
    int(RCuda.R_CUDA_G32): 4,
    int(RCuda.R_CUDA_64): 8,
    int(RCuda.R_CUDA_G64): 8,
    int(RCuda.R_CUDA_UNUSED_CLEAR32): 0,
    int(RCuda.R_CUDA_UNUSED_CLEAR64): 0,
}
"""Bytes that each type writes."""
PTX_LINES = ".nv_debug_line_sass"


def relocate(code: CodeObject, layout: LinearLayout) -> dict[str, bytes]:
    """The .debug_* sections and .nv_debug_line_sass by name, with text addresses of ``layout``; references into other
    debug sections are offsets in those. Shadow sections (.nv.merc.*) are not looked at. Raises Malformed, Unsupported.
    """
    symbols = _symbol_values(code, layout)
    return {
        section.name: _relocated(code, section, symbols)
        for section in reversed(code.sections)
        if section.name.startswith(".debug_") or section.name == PTX_LINES
    }


def _symbol_values(code: CodeObject, layout: LinearLayout) -> SymbolValues:
    """For each symbol its value in the linear space."""
    table = code.section(".symtab")
    return SymbolValues(table.data if table else b"", table.name if table else "", code.address_bits, layout.bases())


def _relocated(code: CodeObject, section: Section, symbols: SymbolValues) -> bytes:
    data = bytearray(section.data)
    for table in entries.tables_for(code, section):
        entries.opened(table, code.address_bits).apply(data, section.name, _WIDTHS, symbols, leaves_undefined=True)
    return bytes(data)
