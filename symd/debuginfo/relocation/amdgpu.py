"""Relocatable AMDGPU objects: every address and every offset in their debug sections is a relocation, SHT_RELA as a
rule. With one section a function all line sequences begin at 0, and only the relocation's symbol says whose they are.

Source: LLVM's AMDGPU usage guide, "Relocation Records"."""

from __future__ import annotations

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
_SMALL = 1 << 16
"""Bytes of debug sections up to which all tables are applied at once: NumPy's fixed costs are most of what one costs then."""


def relocate(code: CodeObject, layout: LinearLayout) -> dict[str, bytes]:
    """Debug sections with S + A stored at every relocated place; S is a linear address of the layout for a symbol in
    text, an offset for one in another section. Debug sections that share a name (one a COMDAT group) are put end to
    end, and offsets into them moved along. Raises Malformed and Unsupported rather than leave a relocation out."""
    debug = [section for section in code.sections if section.name.startswith(".debug_")]
    starts, sizes = _starts(debug)
    values = _symbol_values(code, layout, starts)
    if sum(sizes.values()) <= _SMALL and len(sizes) == len(debug):
        at_once = _at_once(code, debug, values)
        if at_once is not None:
            return at_once
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


def _at_once(code: CodeObject, debug: list[Section], values: U64) -> dict[str, bytes] | None:
    """The sections of an object with all of its tables applied at once; None where anything is unusual, and read table by
    table, which says what it is."""
    targets = {section.index: section for section in debug}
    tables = [section for section in code.sections if section.type in (SHT_RELA, SHT_REL) and section.info in targets]
    target = [table.info for table in tables]
    if any(table.type == SHT_REL for table in tables) or len({*target}) < len(target):
        return None
    ends = np.cumsum([len(section.data) for section in debug])
    first = dict(zip(targets, [0, *ends.tolist()], strict=False))
    data = bytearray().join([section.data for section in debug])
    found, counts = entries.read_all(tables)
    if found is None or (len(found.symbol) and int(found.symbol.max()) >= len(values)):
        return None
    begin = np.repeat(np.array([first[number] for number in target], np.uint64), counts)
    size = np.repeat(np.array([len(targets[number].data) for number in target], np.uint64), counts)
    results = values[found.symbol] + found.addend.view(np.uint64)
    applied = np.count_nonzero(found.type == RAmdgpu.R_AMDGPU_NONE)
    for kind, width in _WIDTHS.items():
        chosen = np.flatnonzero(found.type == kind)
        applied += len(chosen)
        offset, value = found.offset[chosen], results[chosen]
        outside = (offset > size[chosen]) | (offset + np.uint64(width) > size[chosen])
        if outside.any() or (width == 4 and np.any(value - np.uint64(FIRST_BASE) < np.uint64(FIRST_BASE))):
            return None
        entries.write(data, offset + begin[chosen], value, width, "")
    if applied < len(found.type):
        return None
    return {section.name: bytes(data[first[section.index] :][: len(section.data)]) for section in debug}


def _relocated(code: CodeObject, section: Section, values: U64) -> bytearray:
    data = bytearray(section.data)
    for table in _tables(code, section):
        found = entries.read(table)
        if table.type == SHT_REL:
            raise Unsupported("SHT_REL relocations are not read for AMDGPU objects", where=table.name)
        unknown = set(distinct(found.type).tolist()) - {RAmdgpu.R_AMDGPU_NONE, *_WIDTHS}
        if unknown:
            raise Unsupported(f"relocation type {min(unknown)} is not read in debug sections", where=table.name)
        if len(found.symbol) and int(found.symbol.max()) >= len(values):
            raise Malformed(f"a relocation names symbol {int(found.symbol.max())} of {len(values)}", where=table.name)
        results = values[found.symbol] + found.addend.view(np.uint64)
        for kind, width in _WIDTHS.items():
            chosen = found.type == kind
            if width == 4 and np.any(results[chosen] - np.uint64(FIRST_BASE) < np.uint64(FIRST_BASE)):
                raise Unsupported("a 32-bit relocation against code is not read", where=table.name)
            entries.write(data, found.offset[chosen], results[chosen], width, section.name)
    return data


def _tables(code: CodeObject, target: Section) -> list[Section]:
    """Relocation tables by sh_info: names repeat where there are COMDAT groups."""
    kinds = (SHT_RELA, SHT_REL)
    return [section for section in code.sections if section.type in kinds and section.info == target.index]
