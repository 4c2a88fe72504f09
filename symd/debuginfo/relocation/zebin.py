"""Zebins, relocatable and as drivers return them. Their symbols cannot be trusted: the section they name is the one
that holds the relocation, names may be missing or differ from run to run, and a driver that met a missing name leaves
that kernel's addresses at 0. The addends are right, with every kernel at 0; so each unit's kernel is found, and
everything is redone from the addends.

Source: compute-runtime's zebin documentation, "Gen Relocation Type".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum

import numpy as np

from symd.budget import DebugBudget
from symd.debuginfo.layout import LinearLayout
from symd.debuginfo.relocation import entries
from symd.dwarf import DebugSections, Unit, read_units
from symd.dwarf.external_functions import external_functions
from symd.elf import symbol_names
from symd.elf.constants import SHT_RELA
from symd.errors import Malformed, Unsupported
from symd.model.code import CodeObject, Section
from symd.model.columns import U64, distinct


class RZe(IntEnum):
    """Relocation types. Those that debug data has no use for are not listed."""

    R_ZE_NONE = 0
    R_ZE_SYM_ADDR = 1
    """A 64-bit address: of text, in debug data."""
    R_ZE_SYM_ADDR_32 = 2
    """The low word of one: an offset into another section, in debug data."""


_NONE, _TEXT_ADDRESS, _SECTION_OFFSET = int(RZe.R_ZE_NONE), int(RZe.R_ZE_SYM_ADDR), int(RZe.R_ZE_SYM_ADDR_32)


def relocate(code: CodeObject, layout: LinearLayout) -> dict[str, bytes]:
    """Debug sections with every text address moved to its kernel's base in the layout."""
    sections = {section.name: section for section in code.sections if section.name.startswith(".debug_")}
    content = {name: bytearray(section.data) for name, section in sections.items()}
    tables = {name: _entries(code, section) for name, section in sections.items()}
    for name, table in tables.items():
        _check_types(name, table)
        chosen = table.type == _SECTION_OFFSET
        entries.write(content[name], table.offset[chosen], table.addend[chosen].view(np.uint64), 4, name)
    if content.get(".debug_info"):
        _texts(code, layout, content, tables)
    return {name: bytes(data) for name, data in content.items()}


def _check_types(name: str, table: entries.Relocations) -> None:
    """R_ZE_SYM_ADDR_32_HI (3) and R_PER_THREAD_PAYLOAD_OFFSET_32 (4) are of code; nothing says what they mean in debug
    data."""
    strange = table.type[(table.type != _NONE) & (table.type != _TEXT_ADDRESS) & (table.type != _SECTION_OFFSET)]
    if len(strange):
        raise Unsupported(f"relocation type {int(strange[0])} is not known in debug data (1 and 2 are)", where=name)


def _entries(code: CodeObject, section: Section) -> entries.Relocations:
    found = [entries.read(table) for table in entries.tables_for(code, section)]
    if len(found) > 1:
        raise Malformed("has more than one relocation table", where=section.name)
    return found[0] if found else entries.read(Section(0, "", SHT_RELA, 0, 0, 0, b""))


def _texts(
    code: CodeObject, layout: LinearLayout, content: dict[str, bytearray], tables: dict[str, entries.Relocations]
) -> None:
    sections = DebugSections.of({name: bytes(data) for name, data in content.items()}, DebugBudget.of(code))
    units = read_units(sections)
    if units.warnings:
        raise Malformed(f"the units cannot be read: {units.warnings[0]}", where=".debug_info")
    found = units.units
    bases = _bases(code, layout, found, external_functions(sections, units), tables[".debug_info"])
    starts: dict[str, list[int | None]] = {
        ".debug_info": [unit.offset for unit in found],
        ".debug_line": [unit.stmt_list for unit in found],
        ".debug_addr": [unit.addr_base if unit.states_addr_base else None for unit in found],
    }
    for name, first in starts.items():
        if name not in tables:
            continue
        table = tables[name]
        chosen = table.type == _TEXT_ADDRESS
        values = _base_at(table.offset[chosen], first, bases) + table.addend[chosen].view(np.uint64)
        entries.write(content[name], table.offset[chosen], values, 8, name)


def _base_at(offsets: U64, first: list[int | None], bases: list[int]) -> U64:
    """The base of the unit to whose contribution each offset belongs: the one that starts last before it."""
    pairs = sorted((start, base) for start, base in zip(first, bases, strict=True) if start is not None)
    if not pairs:
        return np.zeros(len(offsets), np.uint64)
    table = np.array(pairs, np.uint64)
    slot = np.searchsorted(table[:, 0], offsets, side="right").astype(np.int64) - 1
    return np.where(slot >= 0, table[np.maximum(slot, 0), 1], np.uint64(0))


def _bases(
    code: CodeObject,
    layout: LinearLayout,
    found: Sequence[Unit],
    functions: Sequence[tuple[str, ...]],
    table: entries.Relocations,
) -> list[int]:
    """The linear base of each unit's kernel: by the name of a text relocation, by the unit's function, by order."""
    texts = [section for section in code.sections if section.executable]
    by_name = {section.name: section.index for section in texts}
    symtab = code.section(".symtab")
    names = symbol_names(symtab, code.sections) if symtab else []
    result = []
    for number, unit in enumerate(found):
        inside = (table.type == _TEXT_ADDRESS) & (table.offset >= unit.offset) & (table.offset < unit.end)
        symbols = (names[symbol] for symbol in distinct(table.symbol[inside]).tolist() if symbol < len(names))
        candidates = [*symbols, *(f".text.{name}" for name in functions[number])]
        section = _first_known(candidates, by_name)
        if section is None and len(found) == len(texts):
            section = texts[number].index
        if section is None:
            raise Malformed(f"unit {number} of {len(found)} belongs to no text section", where=".debug_info")
        result.append(layout.base_of(section) or 0)
    return result


def _first_known(candidates: Iterable[str], by_name: dict[str, int]) -> int | None:
    return next((by_name[name] for name in candidates if name in by_name), None)
