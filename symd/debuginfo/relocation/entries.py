"""Relocation tables as columns, and the writing of relocated values into a section.

Source: System V ABI, chapter 4, "Relocation" (Elf32_Rel, Elf32_Rela, Elf64_Rel, Elf64_Rela)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.elf.constants import SHT_REL, SHT_RELA
from symd.errors import Malformed
from symd.model.code import CodeObject, Section
from symd.model.columns import U32, U64

_REL_64 = np.dtype([("offset", "<u8"), ("info", "<u8")])
_RELA_64 = np.dtype([("offset", "<u8"), ("info", "<u8"), ("addend", "<i8")])
_REL_32 = np.dtype([("offset", "<u4"), ("info", "<u4")])
_RELA_32 = np.dtype([("offset", "<u4"), ("info", "<u4"), ("addend", "<i4")])
_LAYOUTS = {(64, SHT_REL): _REL_64, (64, SHT_RELA): _RELA_64, (32, SHT_REL): _REL_32, (32, SHT_RELA): _RELA_32}
_SYMBOL_SHIFT = {64: 32, 32: 8}
"""The symbol's lowest bit in r_info; the type is below it."""


class Relocations(NamedTuple):
    """Relocations of one section: equally long columns; ``addend`` is 0 for SHT_REL, where it stands in place."""

    offset: U64
    type: U32
    symbol: U32
    addend: NDArray[np.int64]


def read(table: Section, bits: int = 64) -> Relocations:
    """The entries of a SHT_RELA or SHT_REL section of an image of that class. Raises Malformed."""
    dtype = _LAYOUTS[bits, SHT_RELA if table.type == SHT_RELA else SHT_REL]
    if len(table.data) % dtype.itemsize:
        raise Malformed(f"relocation table size is not a multiple of {dtype.itemsize}", where=table.name)
    raw = np.frombuffer(table.data, dtype)
    info, shift = raw["info"].astype(np.uint64), np.uint64(_SYMBOL_SHIFT[bits])
    symbol = (info >> shift).astype(np.uint32)
    kind = (info & ((np.uint64(1) << shift) - np.uint64(1))).astype(np.uint32)
    addend = raw["addend"].astype(np.int64) if table.type == SHT_RELA else np.zeros(len(raw), np.int64)
    return Relocations(raw["offset"].astype(np.uint64), kind, symbol, addend)


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


def write(data: bytearray, offsets: U64, values: U64, width: int, where: str) -> None:
    """Store ``values`` as little-endian integers of ``width`` bytes at ``offsets``."""
    if len(offsets):
        columns = _bytes_at(data, offsets, width, where)
        np.frombuffer(data, np.uint8)[columns] = values.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width]


def in_place(data: bytearray, offsets: U64, width: int, where: str) -> U64:
    """The addends of SHT_REL: what stands at ``offsets``, in ``width`` bytes."""
    found = np.zeros((len(offsets), 8), np.uint8)
    if len(offsets):
        found[:, :width] = np.frombuffer(data, np.uint8)[_bytes_at(data, offsets, width, where)]
    return found.view("<u8").reshape(-1).astype(np.uint64)


def _bytes_at(data: bytearray, offsets: U64, width: int, where: str) -> NDArray[np.int64]:
    """The places of the bytes that each relocation is about. Raises Malformed."""
    if int(offsets.max()) + width > len(data):
        raise Malformed(f"a relocation at byte {int(offsets.max())} leaves the section of {len(data)}", where=where)
    return offsets.astype(np.int64)[:, None] + np.arange(width)
