"""Relocation of cubins. Every function starts at 0, in final images too; REL tables (addend in place) and RELA tables
stand side by side, in any order, and say which function an address of .debug_line, .debug_info or .debug_loc belongs
to.

A sequence without a relocation is a function that the linker stripped: it keeps its low address and falls on no
section. Type numbers and names as cuobjdump prints them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from symd.debuginfo.layout import LinearLayout
from symd.debuginfo.relocation import entries
from symd.elf import symbol_columns
from symd.elf.constants import SHN_UNDEF, SHT_REL
from symd.errors import Malformed, Unsupported
from symd.model.code import CodeObject, Section
from symd.model.columns import U64, distinct


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


_WIDTHS: Mapping[int, int] = {
    int(RCuda.R_CUDA_32): 4,
    int(RCuda.R_CUDA_G32): 4,
    int(RCuda.R_CUDA_64): 8,
    int(RCuda.R_CUDA_G64): 8,
}
"""Bytes that each type writes."""
_NOTHING_TO_DO = (int(RCuda.R_CUDA_NONE), int(RCuda.R_CUDA_UNUSED_CLEAR32), int(RCuda.R_CUDA_UNUSED_CLEAR64))
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


def _symbol_values(code: CodeObject, layout: LinearLayout) -> tuple[U64, NDArray[np.bool_]]:
    """For each symbol its value in the linear space, and whether it is defined in this file."""
    table = code.section(".symtab")
    if table is None:
        return np.zeros(0, np.uint64), np.zeros(0, np.bool_)
    symbols = symbol_columns(table, code.address_bits)
    bases = np.zeros(1 << 16, np.uint64)
    bases[layout.section] = layout.base
    section = symbols["section"]
    return symbols["value"] + bases[section], section != SHN_UNDEF


def _relocated(code: CodeObject, section: Section, symbols: tuple[U64, NDArray[np.bool_]]) -> bytes:
    data = bytearray(section.data)
    for table in entries.tables_for(code, section):
        _apply(data, table, entries.read(table, code.address_bits), symbols, section.name)
    return bytes(data)


def _apply(
    data: bytearray,
    table: Section,
    rows: entries.Relocations,
    symbols: tuple[U64, NDArray[np.bool_]],
    where: str,
) -> None:
    values, defined = symbols
    kinds = distinct(rows.type).tolist()
    unknown = [kind for kind in kinds if kind not in _WIDTHS and kind not in _NOTHING_TO_DO]
    if unknown:
        raise Unsupported(f"relocation type {unknown[0]} of {table.name} is not known", where=where)
    if len(rows.symbol) and int(rows.symbol.max()) >= len(values):
        raise Malformed(f"{table.name} names symbol {int(rows.symbol.max())} of {len(values)}", where=where)
    for kind, width in _WIDTHS.items():
        if kind not in kinds:
            continue
        mine = (rows.type == kind) & defined[rows.symbol]
        offsets = rows.offset[mine]
        addends = rows.addend[mine].view(np.uint64)
        if table.type == SHT_REL:
            addends = _in_place(data, offsets, width, where)
        entries.write(data, offsets, values[rows.symbol[mine]] + addends, width, where)


def _in_place(data: bytearray, offsets: U64, width: int, where: str) -> U64:
    """The little-endian integers of ``width`` bytes that stand at ``offsets``."""
    if len(offsets) and int(offsets.max()) + width > len(data):
        raise Malformed(f"a relocation at byte {int(offsets.max())} leaves the section of {len(data)}", where=where)
    result = np.zeros((len(offsets), 8), np.uint8)
    places = offsets.astype(np.int64)[:, None] + np.arange(width)
    result[:, :width] = np.frombuffer(bytes(data), np.uint8)[places]
    return result.view("<u8").reshape(-1).astype(np.uint64)
