"""Zebins, relocatable and as drivers return them. Their symbols cannot be trusted: the section they name is the one
that holds the relocation, names may be missing or differ from run to run, and a driver that met a missing name leaves
that kernel's addresses at 0. The addends are right, with every kernel at 0; so each unit's kernel is found, and
everything is redone from the addends.

Source: compute-runtime's zebin documentation, "Gen Relocation Type".
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from enum import IntEnum

from symd.core.relocations import RelocationTable
from symd.debuginfo.dwarf.sections import DebugSections
from symd.debuginfo.dwarf.units import Unit, external_functions, read_units
from symd.debuginfo.layout import LinearLayout
from symd.debuginfo.relocation import entries
from symd.errors import Malformed
from symd.formats.budget import DebugBudget
from symd.formats.elf import symbol_names
from symd.formats.elf.constants import SHT_RELA
from symd.model.code import CodeObject, Section


class RZe(IntEnum):
    """Relocation types. Those that debug data has no use for are not listed."""

    R_ZE_NONE = 0
    R_ZE_SYM_ADDR = 1
    """A 64-bit address: of text, in debug data."""
    R_ZE_SYM_ADDR_32 = 2
    """The low word of one: an offset into another section, in debug data."""


_TEXT_ADDRESS = int(RZe.R_ZE_SYM_ADDR)
_OFFSETS = {int(RZe.R_ZE_NONE): 0, _TEXT_ADDRESS: 0, int(RZe.R_ZE_SYM_ADDR_32): 4}
"""Bytes that each type writes, but for addresses of text. R_ZE_SYM_ADDR_32_HI (3) and R_PER_THREAD_PAYLOAD_OFFSET_32
(4) are of code; nothing says what they mean in debug data."""


def relocate(code: CodeObject, layout: LinearLayout) -> dict[str, bytes]:
    """Debug sections with every text address moved to its kernel's base in the layout."""
    sections = {section.name: section for section in code.sections if section.name.startswith(".debug_")}
    content = {name: bytearray(section.data) for name, section in sections.items()}
    tables = {name: _entries(code, section) for name, section in sections.items()}
    for name, table in tables.items():
        table.apply(content[name], name, _OFFSETS, None)
    if content.get(".debug_info"):
        _texts(code, layout, content, tables)
    return {name: bytes(data) for name, data in content.items()}


def _entries(code: CodeObject, section: Section) -> RelocationTable:
    found = entries.tables_for(code, section)
    if len(found) > 1:
        raise Malformed("has more than one relocation table", where=section.name)
    return entries.opened(found[0] if found else Section(0, "", SHT_RELA, 0, 0, 0, b""))


def _texts(
    code: CodeObject, layout: LinearLayout, content: dict[str, bytearray], tables: dict[str, RelocationTable]
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
        if name in tables:
            pairs = sorted((start, base) for start, base in zip(first, bases, strict=True) if start is not None)
            places, of_places = (array("Q", [pair[part] for pair in pairs]) for part in (0, 1))
            tables[name].apply_by_place(content[name], name, _TEXT_ADDRESS, places, of_places)


def _bases(
    code: CodeObject,
    layout: LinearLayout,
    found: Sequence[Unit],
    functions: Sequence[tuple[str, ...]],
    table: RelocationTable,
) -> list[int]:
    """The linear base of each unit's kernel: by the name of a text relocation, by the unit's function, by order."""
    texts = [section for section in code.sections if section.executable]
    by_name = {section.name: section.index for section in texts}
    symtab = code.section(".symtab")
    named = table.symbols_by_place(_TEXT_ADDRESS, array("Q", [unit.offset for unit in found]))
    bases = layout.bases()
    result = []
    for number, symbols in enumerate(named):
        names = symbol_names(symtab, code.sections, sorted(symbols)) if symtab else []
        candidates = [*names, *(f".text.{name}" for name in functions[number])]
        section = next((by_name[name] for name in candidates if name in by_name), None)
        if section is None and len(found) == len(texts):
            section = texts[number].index
        if section is None:
            raise Malformed(f"unit {number} of {len(found)} belongs to no text section", where=".debug_info")
        result.append(bases.get(section, 0))
    return result
