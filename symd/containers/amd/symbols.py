"""Symbols of AMDGPU code by place: which are functions, which are assembly labels, and how far each one reaches.

Source: System V ABI, chapter 4, "Symbol Table"; LLVM's AMDGPU usage guide, "Symbols"."""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.containers.amd import segments
from symd.elf import Elf
from symd.elf.constants import (
    ET_REL,
    SHF_ALLOC,
    SHN_LORESERVE,
    SHN_UNDEF,
    SHN_XINDEX,
    SHT_DYNSYM,
    SHT_SYMTAB,
    STT_AMDGPU_HSA_KERNEL,
    STT_FUNC,
    STT_NOTYPE,
    STT_OBJECT,
)
from symd.model.code import Function, Section
from symd.model.columns import U8, U64

I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

_IS_CODE_OR_DATA = np.zeros(16, np.bool_)
"""By st_info's type."""
_IS_CODE_OR_DATA[[STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_AMDGPU_HSA_KERNEL]] = True


class Placed(NamedTuple):
    """A symbol of code: ``offset`` counts from the start of section number ``section``; ``entry`` says function rather
    than label; ``inner`` that this is a label inside a function whose size the file gives."""

    name: str
    section: int
    offset: int
    size: int
    entry: bool
    kind: int
    inner: bool = False


class Descriptor(NamedTuple):
    """A ``.kd`` symbol: its value, and the section (-1: none) that holds it at ``offset``."""

    value: int
    section: int
    offset: int


class _SymbolColumns(NamedTuple):
    """Symbols that may be code or descriptors: their names, and st_info's type, st_shndx, st_value and st_size."""

    names: list[str]
    kind: U8
    section: NDArray[np.uint16]
    value: U64
    size: U64


class Symbols:
    """``code``: every function and label by place; ``by_name``: the same; ``descriptors``: the ``.kd`` symbols by their
    kernel's name; ``relocatable``: symbol values are section offsets."""

    def __init__(self, image: Elf) -> None:
        self.relocatable = image.header.type == ET_REL
        self._image = image
        self._space = _Space(image)
        rows = _rows(image)
        section = self._space.holding(rows)
        offset = rows.value if self.relocatable else rows.value - self._space.address[section]
        self.descriptors = _descriptors(rows, section, offset)
        self.code = self._code(rows, section, offset)
        self.by_name = {placed.name: placed for placed in self.code}

    def _code(self, rows: _SymbolColumns, section: I64, offset: U64) -> list[Placed]:
        """Functions, and what has no type and a place in code. Absolute values, such as register counts that newer
        compilers leave as symbols, have none."""
        space, names = self._space, rows.names
        absolute = (rows.section >= SHN_LORESERVE) & (rows.section != SHN_XINDEX)
        room = np.maximum(space.size[section], np.uint64(1))
        inside = (section >= 0) & space.executable[section] & (offset < room + _may_be_empty(rows))
        chosen = np.flatnonzero(inside & (rows.kind != STT_OBJECT) & ~absolute)
        chosen = chosen[np.array([bool(names[row]) for row in chosen.tolist()], np.bool_)]
        entry = rows.kind[chosen] != STT_NOTYPE
        for at in np.flatnonzero(~entry).tolist():
            entry[at] = names[chosen[at]] in self.descriptors
        order = np.lexsort((rows.size[chosen] > 0, ~entry, offset[chosen], section[chosen]))
        chosen, entry = chosen[order], entry[order]
        section, offset = section[chosen], offset[chosen]
        given, limit = rows.size[chosen], space.size[section]
        size = _sizes(section, offset, given, entry, limit)
        size[self._empty(section, offset, size, entry & (given > 0), _may_be_empty(rows)[chosen])] = 0
        inner = ~entry & (given == 0)
        if inner.any():
            inner &= _around(section, offset, given * entry, limit, none=0) > offset
        columns = (section, offset, size, entry, rows.kind[chosen], inner)
        return [*map(Placed, [names[row] for row in chosen.tolist()], *(column.tolist() for column in columns))]

    def _empty(self, section: I64, offset: U64, size: U64, sized: Flags, unsized: Flags) -> Flags:
        """Which of the ``unsized`` functions own no byte: what they would reach over is that of a function with a size that begins
        at the same place, or padding. A compiler leaves such a one where a function has no instructions; assembly without sizes has
        instructions there."""
        if not unsized.any():
            return unsized
        place = np.cumsum(_place_starts(section, offset)) - 1
        taken = np.zeros(len(place), np.bool_)
        taken[place[sized]] = True
        found: Flags = unsized & taken[place]
        for number in np.unique(place[unsized & ~found]).tolist():
            first = int(np.searchsorted(place, number))
            at = first + int(np.flatnonzero(unsized[first:])[0])
            if _is_padding(self.bytes_at(int(section[at]), int(offset[at]), int(size[at]))):
                found |= unsized & (place == number)
        return found

    def at(self, address: int) -> Section | None:
        """The loaded section that holds an address of a linked object."""
        if not 0 <= address < 1 << 64:
            return None
        number = self._space.at(np.array([address], np.uint64)).item()
        return None if number < 0 else self._image.sections[number]

    def extent(self, section: Section, offset: int) -> int:
        """The size of the first symbol at a place in code that owns any; where none is, the bytes up to the next one or the section's end."""
        follower = bisect_left(self.code, (section.index, offset), key=lambda placed: (placed.section, placed.offset))
        for placed in islice(self.code, follower, None):
            if placed.section != section.index:
                break
            if placed.offset > offset or placed.size:
                return placed.offset - offset or placed.size
        return section.size - offset

    def functions(self) -> tuple[Function, ...]:
        """Functions, and labels that stand in none: a place after a label inside a function is still that function's."""
        return tuple(
            [Function(name, number, at, size) for name, number, at, size, _, _, inner in self.code if not inner]
        )

    def bytes_of(self, symbol: Descriptor, size: int) -> bytes:
        """``size`` bytes at a symbol, from its section or its segment; fewer where they end."""
        data = self._image.sections[symbol.section].data if symbol.section >= 0 else b""
        if data:
            return data[symbol.offset : symbol.offset + size]
        return b"" if self.relocatable else self._image.at_address(symbol.value, size)

    def bytes_at(self, section: int, offset: int, size: int) -> bytes:
        """``size`` bytes of a section; fewer where it ends."""
        return self._image.sections[section].data[offset : offset + size]


class _Space:
    """The sections as columns, by number: ``address``, ``size``, ``executable``."""

    def __init__(self, image: Elf) -> None:
        self.relocatable = image.header.type == ET_REL
        self.address = np.array([section.address for section in image.sections], np.uint64)
        self.size = np.array([section.size for section in image.sections], np.uint64)
        self.executable = np.array([section.executable for section in image.sections], np.bool_)
        loaded = [s.index for s in image.sections if s.flags & SHF_ALLOC and s.size]
        self._loaded = np.array(loaded, np.int64)[np.argsort(self.address[loaded], kind="stable")]

    def holding(self, rows: _SymbolColumns) -> I64:
        """For each symbol the section that it names, or, where that is not true, the one whose addresses hold it; -1
        where there is none. One that may be empty can stand at the end of code."""
        number, value = rows.section, rows.value
        known = number < len(self.address)
        named = np.where(known, number, 0).astype(np.int64)
        if self.relocatable:
            return np.where(known, named, -1)
        inside = known & (value >= self.address[named]) & (value - self.address[named] < self.size[named])
        found = np.where(inside, named, self.at(value))
        for at in np.flatnonzero(_may_be_empty(rows) & ~inside).tolist():
            before = (int(named[at]), int(self.at(value[at : at + 1] - np.uint64(1))[0]))
            ended = next((each for each in before if each >= 0 and self._is_code_up_to(each, value[at])), -1)
            if ended >= 0 and (found[at] < 0 or not self.executable[found[at]] or ended == before[0]):
                found[at] = ended
        return found

    def _is_code_up_to(self, number: int, address: np.uint64) -> bool:
        return bool(self.executable[number] and self.address[number] + self.size[number] == address)

    def at(self, address: U64) -> I64:
        """For each address of a linked object the loaded section that holds it, or -1."""
        if not len(self._loaded):
            return np.full(len(address), -1)
        slot = np.searchsorted(self.address[self._loaded], address, side="right") - 1
        found = self._loaded[slot]
        return np.where((slot >= 0) & (address - self.address[found] < self.size[found]), found, -1)


def _rows(image: Elf) -> _SymbolColumns:
    """Of .symtab, else of .dynsym, else of PT_DYNAMIC."""
    found = _table(image)
    if found is None:
        none = np.zeros(0, np.uint64)
        return _SymbolColumns([], none.astype(np.uint8), none.astype(np.uint16), none, none)
    image, table = found
    rows = image.symbol_columns(table)
    rows = rows[(rows["section"] != SHN_UNDEF) & _IS_CODE_OR_DATA[rows["info"] & 15]]
    value, size = rows["value"].astype(np.uint64), rows["size"].astype(np.uint64)
    return _SymbolColumns(image.symbol_names(table, rows["name"]), rows["info"] & 15, rows["section"], value, size)


def _table(image: Elf) -> tuple[Elf, Section] | None:
    for kind in (SHT_SYMTAB, SHT_DYNSYM):
        table = next((section for section in image.sections if section.type == kind and section.data), None)
        if table:
            return image, table
    return segments.dynamic_symbols(image)


def _descriptors(rows: _SymbolColumns, section: I64, offset: U64) -> dict[str, Descriptor]:
    names = rows.names
    data = np.flatnonzero(rows.kind <= STT_OBJECT).tolist()
    which = [row for row in data if names[row].endswith(".kd")]
    columns = (column[which].tolist() for column in (rows.value, section, offset))
    return dict(zip([names[row][:-3] for row in which], map(Descriptor, *columns), strict=True))


def _sizes(section: I64, offset: U64, size: U64, entry: Flags, limit: U64) -> U64:
    """Symbols without a size reach to the next place: a function to the next function, a label to the next symbol or the
    end of the function around it; the last one to the end of its section (``limit``). Columns sorted by place."""
    if size.all():
        return size
    starts = _place_starts(section, offset)
    place: I64 = np.cumsum(starts)
    next_entry = _start_of_next(place, np.flatnonzero(entry), section, offset, limit)
    next_any = _start_of_next(place, np.flatnonzero(starts), section, offset, limit)
    end = np.where(entry, next_entry, np.minimum(next_any, _around(section, offset, size * entry, limit, none=limit)))
    return np.where(size == 0, end - offset, size)


def _place_starts(section: I64, offset: U64) -> Flags:
    """Which of the symbols, sorted by place, are the first at theirs."""
    first: Flags = np.append(True, (section[1:] != section[:-1]) | (offset[1:] != offset[:-1]))[: len(section)]
    return first


def _may_be_empty(rows: _SymbolColumns) -> Flags:
    """Functions without a size."""
    found: Flags = (rows.kind != STT_NOTYPE) & (rows.kind != STT_OBJECT) & (rows.size == 0)
    return found


_PADDING = np.array([0, 0xBF800000, 0xBF9F0000], np.uint32)
"""What linkers leave between sections, and what compilers do behind code: s_nop 0, s_code_end."""


def _is_padding(data: bytes) -> bool:
    """Whether there are bytes, and no other instructions than those of padding."""
    words = np.frombuffer(data, "<u4", len(data) // 4)
    return bool(data) and bool(np.isin(words, _PADDING).all()) and not any(data[len(words) * 4 :])


def _start_of_next(place: I64, among: I64, section: I64, offset: U64, limit: U64) -> U64:
    """Where the first of the symbols ``among`` after each one's place begins, if it is in the same section."""
    if not len(among):
        return limit
    follower = np.searchsorted(place[among], place, side="right")
    target = among[np.minimum(follower, len(among) - 1)]
    same = (follower < len(among)) & (section[target] == section)
    return np.where(same, offset[target], limit)


def _around(section: I64, offset: U64, size: U64, limit: U64, *, none: U64 | int) -> U64:
    """The end of the sized function that covers each symbol, in the section that ends at ``limit``; ``none`` where none
    does."""
    ends, last, reach = [], -1, 0
    for number, begin, length in zip(*(column.tolist() for column in (section, offset, size)), strict=True):
        reach = max(reach if number == last else 0, begin + length)
        last = number
        ends.append(reach)
    end = np.array([min(each, (1 << 64) - 1) for each in ends], np.uint64)
    return np.where(end > offset, np.minimum(end, limit), np.uint64(0) + none)
