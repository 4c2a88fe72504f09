"""Symbols and their names.

Source: System V ABI, chapter 4, "Symbol Table" (Elf32_Sym, Elf64_Sym).

String tables: NUL-terminated UTF-8 strings, named by the offset of their first byte.

Source: System V ABI, chapter 4, "String Table".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from symd.errors import Malformed
from symd.model.code import Section


def string_at(table: bytes, offset: int) -> str:
    """The string at ``offset``; "" where that leaves the table."""
    end = table.find(0, offset)
    return str(table[offset : end if end >= 0 else len(table)], "utf-8", "replace")


def overlapping(where: str) -> Malformed:
    """The error about a table whose strings are together far longer than it."""
    return Malformed("the strings of its table overlap and are more than 16 times as long as the table", where=where)


def strings_at(table: bytes, offsets: Sequence[int], where: str) -> list[str]:
    """The strings at some offsets. Strings may share their ends: n offsets into one string of n bytes hold n * n / 2. Raises
    Malformed where that takes far more memory than the table."""
    known: dict[int, str] = {}
    left = 16 * len(table) + 65536  # real tables share tails, and stay far below
    text = table.decode("latin-1") + "\0"
    for offset in set(offsets):
        found = known[offset] = text[offset : text.find("\0", offset)]
        left -= len(found)
        if left < 0:
            raise overlapping(where)
    if not table.isascii():
        known = {offset: str(found.encode("latin-1"), "utf-8", "replace") for offset, found in known.items()}
    return [known[offset] for offset in offsets]


_SYMBOL_BYTES = 24
"""An entry of a 64-bit table."""


class Symbol(NamedTuple):
    """A symbol of an ELF image (gABI, "Symbol Table"). ``type`` and ``bind`` are the low and high nibble of st_info;
    ``section`` is st_shndx."""

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
