"""The relocation tables of a section.

Source: System V ABI, chapter 4, "Relocation"."""

from __future__ import annotations

from symd.core.relocations import RelocationTable
from symd.formats.elf.constants import SHT_REL, SHT_RELA
from symd.model.code import CodeObject, Section


def opened(table: Section, bits: int = 64) -> RelocationTable:
    """The entries of a SHT_RELA or SHT_REL section of an image of that class. Raises Malformed."""
    return RelocationTable(table.data, table.name, bits, table.type == SHT_RELA)


def tables_for(code: CodeObject, target: Section) -> list[Section]:
    """The relocation tables whose name or sh_info says that they are for ``target``."""
    names = f".rela{target.name}", f".rel{target.name}"
    return [
        section
        for section in code.sections
        if section.name in names
        and section.type in (SHT_RELA, SHT_REL)
        and (section.info in (0, target.index) or section.info >= len(code.sections))
    ]
