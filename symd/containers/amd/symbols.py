"""Symbols of AMDGPU code by place: which are functions, which are assembly labels, and how far each one reaches.

Source: System V ABI, chapter 4, "Symbol Table"; LLVM's AMDGPU usage guide, "Symbols"."""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from symd.containers.amd import segments
from symd.elf import Elf, Symbol
from symd.elf.constants import (
    ET_REL,
    SHF_ALLOC,
    SHN_LORESERVE,
    SHN_XINDEX,
    SHT_DYNSYM,
    SHT_SYMTAB,
    STT_AMDGPU_HSA_KERNEL,
    STT_FUNC,
    STT_NOTYPE,
    STT_OBJECT,
)
from symd.model.code import Function, Section

_FUNCTIONS = (STT_FUNC, STT_AMDGPU_HSA_KERNEL)
_CODE_OR_DATA = (STT_NOTYPE, STT_OBJECT, *_FUNCTIONS)
_PADDING = (0, 0xBF800000, 0xBF9F0000)
"""What linkers leave between sections, and what compilers do behind code: s_nop 0, s_code_end."""
_LARGEST = (1 << 64) - 1


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


_Row: TypeAlias = tuple[int, int, bool, bool, int, Symbol]
"""A symbol of code as it is sorted: section, offset, whether it is a label, whether it has a size, its number."""


class Symbols:
    """``code``: every function and label by place; ``by_name``: the same; ``descriptors``: the ``.kd`` symbols by their
    kernel's name; ``relocatable``: symbol values are section offsets."""

    def __init__(self, image: Elf) -> None:
        self.relocatable = image.header.type == ET_REL
        self._image, self._sections = image, image.sections
        self._loaded = sorted([(s.address, s.index) for s in image.sections if s.flags & SHF_ALLOC and s.size])
        self._rooms = {s.index: max(s.size, 1) for s in image.sections if s.executable}
        self.descriptors: dict[str, Descriptor] = {}
        found: list[tuple[int, int, Symbol]] = []
        for symbol in _table(image):
            section, offset = self._place(symbol)
            if symbol.type <= STT_OBJECT and symbol.name.endswith(".kd"):
                self.descriptors[symbol.name[:-3]] = Descriptor(symbol.value, section, offset)
            if symbol.type != STT_OBJECT and self._is_of_code(symbol, section, offset):
                found.append((section, offset, symbol))
        descriptors = self.descriptors
        rows: list[_Row] = [
            (
                section,
                offset,
                symbol.type == STT_NOTYPE and symbol.name not in descriptors,
                symbol.size > 0,
                number,
                symbol,
            )
            for number, (section, offset, symbol) in enumerate(found)
        ]
        rows.sort()
        self.code = [
            placed
            for number, group in groupby(rows, itemgetter(0))
            for placed in self._placed(self._sections[number], [*group])
        ]
        self.by_name = {placed.name: placed for placed in self.code}

    def _place(self, symbol: Symbol) -> tuple[int, int]:
        """The section that a symbol names, or, where that is not true, the one whose addresses hold it, and its offset there; -1
        where there is none. One that may be empty can stand at the end of code."""
        number, value = symbol.section, symbol.value
        named = self._sections[number] if number < len(self._sections) else None
        if self.relocatable:
            return (-1 if named is None else number), value
        if named is not None and 0 <= value - named.address < named.size:
            return number, value - named.address
        found = self.at(value)
        if _may_be_empty(symbol):
            before = (named or self._sections[0], self.at(value - 1))
            ended = next((one for one in before if one and one.executable and one.address + one.size == value), None)
            if ended and (found is None or not found.executable or ended is before[0]):
                found = ended
        return (found.index, value - found.address) if found else (-1, 0)

    def _is_of_code(self, symbol: Symbol, section: int, offset: int) -> bool:
        """Whether what is no object has a name and a place in code. Absolute values, such as register counts that newer
        compilers leave as symbols, have none."""
        room = self._rooms.get(section)
        if room is None or not symbol.name:
            return False
        return offset < room + _may_be_empty(symbol) and (
            symbol.section < SHN_LORESERVE or symbol.section == SHN_XINDEX
        )

    def _placed(self, section: Section, rows: Sequence[_Row]) -> Iterator[Placed]:
        """The symbols of a section, in order. Those without a size reach to the next place: a function to the next function, a label
        to the next symbol or the end of the function around it; the last one to the end of the section."""
        number, limit, reach = section.index, section.size, 0
        starts = [row[1] for row in rows]
        entries = [row[1] for row in rows if not row[2]]
        taken = {row[1]: True for row in rows if row[3] and not row[2]}
        for _, offset, is_label, is_sized, _, symbol in rows:
            size = symbol.size
            if not is_label:
                reach = max(reach, offset + size)
                if is_sized:
                    yield Placed(symbol.name, number, offset, size, True, symbol.type, False)
                    continue
            around = min(reach, limit) if reach > offset else 0
            if not is_sized:
                among = starts if is_label else entries
                follower = bisect_right(among, offset)
                end = among[follower] if follower < len(among) else limit
                size = (min(end, around or limit) if is_label else end) - offset & _LARGEST
                if symbol.type in _FUNCTIONS:
                    if offset not in taken:
                        taken[offset] = _is_padding(section.data[offset : offset + size])
                    size = 0 if taken[offset] else size
            inner = is_label and not is_sized and around > offset
            yield Placed(symbol.name, number, offset, size, not is_label, symbol.type, inner)

    def at(self, address: int) -> Section | None:
        """The loaded section that holds an address of a linked object."""
        slot = bisect_right(self._loaded, (address, len(self._sections))) - 1
        found = self._sections[self._loaded[slot][1]] if slot >= 0 else None
        return found if found and address - found.address < found.size else None

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
        data = self._sections[symbol.section].data if symbol.section >= 0 else b""
        if data:
            return data[symbol.offset : symbol.offset + size]
        return b"" if self.relocatable else self._image.at_address(symbol.value, size)

    def bytes_at(self, section: int, offset: int, size: int) -> bytes:
        """``size`` bytes of a section; fewer where it ends."""
        return self._sections[section].data[offset : offset + size]


def _table(image: Elf) -> list[Symbol]:
    """What may be code or descriptors of .symtab, else of .dynsym, else of PT_DYNAMIC."""
    for kind in (SHT_SYMTAB, SHT_DYNSYM):
        table = next((section for section in image.of_type(kind) if section.data), None)
        if table:
            return image.symbols(table, _CODE_OR_DATA)
    found = segments.dynamic_symbols(image)
    return found[0].symbols(found[1], _CODE_OR_DATA) if found else []


def _may_be_empty(symbol: Symbol) -> bool:
    """Functions without a size."""
    return not symbol.size and symbol.type in _FUNCTIONS


def _is_padding(data: bytes) -> bool:
    """Whether there are bytes, and no other instructions than those of padding."""
    whole = len(data) & ~3
    words = struct.iter_unpack("<I", data[:whole])
    return bool(data) and all(word in _PADDING for (word,) in words) and not any(data[whole:])
