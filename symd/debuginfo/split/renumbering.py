"""Symbol tables of one image for another, in which sections have other numbers or are gone.

Source: System V ABI, chapter 4, "Symbol Table": st_shndx is a section number, or one of the reserved numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from symd.errors import Malformed
from symd.formats.elf.constants import SHN_LORESERVE, SHN_UNDEF, STB_LOCAL
from symd.formats.elf.writer import OutputSection

_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
"""Elf64_Sym."""


def renumbered(table: bytes, number: Mapping[int, int]) -> NDArray[np.void]:
    """The entries of a 64-bit symbol table, writable, with section numbers mapped by ``number``; sections that it lacks
    become SHN_UNDEF. A last entry that the content cuts off is left out."""
    rows = np.frombuffer(table[: len(table) // _SYMBOL.itemsize * _SYMBOL.itemsize], _SYMBOL).copy()
    lookup = np.zeros(0x10000, np.uint16)
    lookup[SHN_LORESERVE:] = np.arange(SHN_LORESERVE, 0x10000)
    for old, new in number.items():
        if old < SHN_LORESERVE:
            lookup[old] = new
    rows["section"] = lookup[rows["section"]]
    return rows


def without_lost(
    table: OutputSection, strings: OutputSection, number: Mapping[int, int]
) -> tuple[OutputSection, OutputSection]:
    """A symbol table and its string table without the symbols whose sections ``number`` lacks."""
    rows = renumbered(table.content, number)
    before = np.frombuffer(table.content[: len(rows) * _SYMBOL.itemsize], _SYMBOL)["section"]
    rows = rows[(rows["section"] != SHN_UNDEF) | (before == SHN_UNDEF)]
    names = _own_strings(rows, strings.content)
    local = int(np.count_nonzero(rows["info"] >> 4 == STB_LOCAL))
    content = rows.tobytes()
    return (
        replace(table, content=content, size=len(content), info=local),
        replace(strings, content=names, size=len(names)),
    )


def _own_strings(rows: NDArray[np.void], strings: bytes) -> bytes:
    """A string table that has only the names of ``rows``, which are pointed at it."""
    names = bytearray(b"\0")
    starts = {0: 0}
    for old in rows["name"].tolist():
        if old not in starts and old < len(strings):
            end = strings.find(b"\0", old)
            starts[old] = len(names)
            names += strings[old : end if end >= 0 else len(strings)] + b"\0"
            if len(names) > 16 * len(strings) + 64:
                raise Malformed(
                    "symbol names overlap and are more than 16 times as long as their table", where=".strtab"
                )
    rows["name"] = [starts.get(old, 0) for old in rows["name"].tolist()]
    return bytes(names)
