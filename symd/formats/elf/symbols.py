"""Symbols and their names.

Source: System V ABI, chapter 4, "Symbol Table" (Elf32_Sym, Elf64_Sym)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from symd.formats.elf.strings import strings_at
from symd.model.code import Section

_SYMBOL_BYTES = 24
"""An entry of a 64-bit table."""


class Symbol(NamedTuple):
    """``type`` and ``bind`` are the low and high nibble of st_info; ``section`` is st_shndx."""

    name: str
    value: int
    size: int
    type: int
    bind: int
    other: int
    section: int


def symbol_names(table: Section, sections: Sequence[Section], numbers: Sequence[int]) -> list[str]:
    """The names of some of a 64-bit table's symbols; those that it does not have are left out. ``sections`` are those of its image, of which sh_link has the strings. Raises
    Malformed."""
    strings = sections[table.link].data if table.link < len(sections) else b""
    known = [number for number in numbers if number < len(table.data) // _SYMBOL_BYTES]
    offsets = [
        int.from_bytes(table.data[_SYMBOL_BYTES * number : _SYMBOL_BYTES * number + 4], "little") for number in known
    ]
    return strings_at(strings, offsets, table.name)
