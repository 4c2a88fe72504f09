"""Symbol tables as columns.

Source: System V ABI, chapter 4, "Symbol Table" (Elf32_Sym, Elf64_Sym)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from symd.elf.strings import strings_at
from symd.errors import Malformed
from symd.model.code import Section

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Symbol(NamedTuple):
    """``type`` and ``bind`` are the low and high nibble of st_info; ``section`` is st_shndx."""

    name: str
    value: int
    size: int
    type: int
    bind: int
    other: int
    section: int


def symbol_columns(table: Section, bits: int = 64) -> NDArray[np.void]:
    """The entries of a symbol table section, the null entry included, as a structured array with the fields name (offset in
    the string table), info, other, section, value, size. Raises Malformed."""
    import numpy as np  # noqa: PLC0415 - slow to import, and who asks for sections alone needs none of it

    from symd.elf.symbol_layout import SYMBOL_32, SYMBOL_64  # noqa: PLC0415

    dtype = SYMBOL_64 if bits == 64 else SYMBOL_32
    if len(table.data) % dtype.itemsize:
        raise Malformed(f"symbol table size is not a multiple of {dtype.itemsize}", where=table.name)
    return np.frombuffer(table.data, dtype)


def symbol_names(table: Section, sections: Sequence[Section]) -> list[str]:
    """The names of a 64-bit table's symbols; ``sections`` are those of its image, of which sh_link has the strings. Raises
    Malformed."""
    strings = sections[table.link].data if table.link < len(sections) else b""
    return strings_at(strings, symbol_columns(table)["name"].tolist(), table.name)
