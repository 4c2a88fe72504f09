"""Relocatable AMDGPU objects: every address and every offset in their debug sections is a relocation: SHT_RELA for
amdhsa, SHT_REL, whose addends stand in place, for other systems. With one section a function all line sequences begin at 0, and only the relocation's symbol says whose they are.

Source: LLVM's AMDGPU usage guide, "Relocation Records"."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import IntEnum

import numpy as np

from symd.debuginfo.layout import FIRST_BASE, LinearLayout
from symd.debuginfo.relocation import entries
from symd.elf import symbol_columns
from symd.elf.constants import SHN_LORESERVE, SHT_REL, SHT_RELA, SHT_SYMTAB
from symd.errors import Malformed, Unsupported
from symd.model.code import CodeObject, Section
from symd.model.columns import U64, distinct


class RAmdgpu(IntEnum):
    """Relocation types of debug data. S is the symbol's value, A the addend."""

    R_AMDGPU_NONE = 0
    R_AMDGPU_ABS32_LO = 1
    """The low word of S + A."""
    R_AMDGPU_ABS64 = 3
    """S + A in 64 bits."""
    R_AMDGPU_ABS32 = 6
    """S + A in 32 bits."""


_WIDTHS: Mapping[int, int] = {
    int(RAmdgpu.R_AMDGPU_ABS32_LO): 4,
    int(RAmdgpu.R_AMDGPU_ABS64): 8,
    int(RAmdgpu.R_AMDGPU_ABS32): 4,
}
"""Bytes that each type writes."""
_RELA, _STORE_32, _STORE_64 = struct.Struct("<QQq"), struct.Struct("<I"), struct.Struct("<Q")
_STORES: Mapping[int, struct.Struct] = {
    kind: _STORE_64 if width == _STORE_64.size else _STORE_32 for kind, width in _WIDTHS.items()
}
_LOW_WORD, _ADDRESS = (1 << 32) - 1, (1 << 64) - 1
_FEW_ENTRIES = 128
"""Up to so many entries are applied one by one in less time than NumPy's fixed costs."""


def relocate(code: CodeObject, layout: LinearLayout) -> dict[str, bytes]:
    """Debug sections with S + A stored at every relocated place; S is a linear address of the layout for a symbol in
    text, an offset for one in another section. Debug sections that share a name (one a COMDAT group) are put end to
    end, and offsets into them moved along. Raises Malformed and Unsupported rather than leave a relocation out."""
    debug = [section for section in code.sections if section.name.startswith(".debug_")]
    starts, sizes = _starts(debug)
    values = _symbol_values(code, layout, starts)
    if len(sizes) == len(debug):
        small = _few_applied(code, debug, values)
        if small is not None:
            return small
    content = {name: bytearray(size) for name, size in sizes.items()}
    for section in debug:
        data = _relocated(code, section, values)
        content[section.name][starts[section.index] : starts[section.index] + len(data)] = data
    return {name: bytes(data) for name, data in content.items()}


def _starts(debug: list[Section]) -> tuple[dict[int, int], dict[str, int]]:
    """Section number to its place among those of its name; name to their size together."""
    starts: dict[int, int] = {}
    sizes: dict[str, int] = {}
    for section in debug:
        starts[section.index] = sizes.get(section.name, 0)
        sizes[section.name] = starts[section.index] + len(section.data)
    return starts, sizes


def _symbol_values(code: CodeObject, layout: LinearLayout, starts: dict[int, int]) -> U64:
    """S of every symbol of .symtab."""
    table = next((section for section in code.sections if section.type == SHT_SYMTAB), None)
    if table is None:
        return np.zeros(0, np.uint64)
    symbols = symbol_columns(table)
    last = min(len(code.sections), SHN_LORESERVE)
    bases = np.zeros(last + 1, np.uint64)
    for number, start in starts.items():
        bases[min(number, last)] = start
    text = layout.section < last
    bases[layout.section[text]] = layout.base[text]
    bases[last] = 0
    return np.asarray(symbols["value"] + bases[np.minimum(symbols["section"], last)], np.uint64)


def _few_applied(code: CodeObject, debug: list[Section], values: U64) -> dict[str, bytes] | None:
    """The sections of a small object, with its tables applied entry by entry. None where there are many entries or anything is
    unusual: then they are applied table by table, which says what it is."""
    content = {section.index: bytearray(section.data) for section in debug}
    tables = [section for section in code.sections if section.type in (SHT_RELA, SHT_REL) and section.info in content]
    sizes = [len(table.data) for table in tables]
    if sum(sizes) > _FEW_ENTRIES * _RELA.size or any(size % _RELA.size for size in sizes):
        return None
    if any(table.type == SHT_REL for table in tables) or len({table.info for table in tables}) < len(tables):
        return None
    symbols = values.tolist()
    for table in tables:
        data, done = content[table.info], 0
        for offset, info, addend in _RELA.iter_unpack(table.data):
            kind, symbol = info & _LOW_WORD, info >> 32
            store = _STORES.get(kind)
            if store is None or symbol >= len(symbols) or offset < done or offset + store.size > len(data):
                return None
            value = (symbols[symbol] + addend) & _ADDRESS
            if store is _STORE_32 and FIRST_BASE <= value < 2 * FIRST_BASE:
                return None
            store.pack_into(data, offset, value if store is _STORE_64 else value & _LOW_WORD)
            done = offset + store.size
    return {section.name: bytes(content[section.index]) for section in debug}


def _relocated(code: CodeObject, section: Section, values: U64) -> bytearray:
    data = bytearray(section.data)
    for table in _tables(code, section):
        found = entries.read(table)
        unknown = set(distinct(found.type).tolist()) - {RAmdgpu.R_AMDGPU_NONE, *_WIDTHS}
        if unknown:
            raise Unsupported(f"relocation type {min(unknown)} is not read in debug sections", where=table.name)
        if len(found.symbol) and int(found.symbol.max()) >= len(values):
            raise Malformed(f"a relocation names symbol {int(found.symbol.max())} of {len(values)}", where=table.name)
        for kind, width in _WIDTHS.items():
            chosen = found.type == kind
            offset, addend = found.offset[chosen], found.addend[chosen].view(np.uint64)
            if table.type == SHT_REL:
                addend = entries.in_place(data, offset, width, section.name)
            results = values[found.symbol[chosen]] + addend
            if width == 4 and np.any(results - np.uint64(FIRST_BASE) < np.uint64(FIRST_BASE)):
                raise Unsupported("a 32-bit relocation against code is not read", where=table.name)
            entries.write(data, offset, results, width, section.name)
    return data


def _tables(code: CodeObject, target: Section) -> list[Section]:
    """Relocation tables by sh_info: names repeat where there are COMDAT groups."""
    kinds = (SHT_RELA, SHT_REL)
    return [section for section in code.sections if section.type in kinds and section.info == target.index]
