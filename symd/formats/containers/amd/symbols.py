"""Symbols of AMDGPU code by place: which are functions, which are assembly labels, and how far each one reaches.

Where the section table was cut off or never written, sections are made from the program headers, and symbols are found
through PT_DYNAMIC, as ROCm's loader finds them.

Sources: System V ABI, chapter 4, "Symbol Table", and chapter 5, "Dynamic Section" and "Hash Table"; the GNU hash table
as binutils and lld write it; LLVM's AMDGPU usage guide, "Symbols".
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from itertools import islice

from symd.core.amdgpu_symbols import OverlappingStrings, SymbolTable
from symd.errors import Malformed
from symd.formats.elf import SYMBOL_32, SYMBOL_64, Elf, ElfSegment
from symd.formats.elf.constants import (
    DT_GNU_HASH,
    DT_HASH,
    DT_NULL,
    DT_STRSZ,
    DT_STRTAB,
    DT_SYMTAB,
    ET_REL,
    PF_W,
    PF_X,
    PT_DYNAMIC,
    PT_LOAD,
    PT_NOTE,
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHF_WRITE,
    SHT_DYNSYM,
    SHT_NOTE,
    SHT_NULL,
    SHT_PROGBITS,
    SHT_STRTAB,
    SHT_SYMTAB,
)
from symd.formats.elf.contents import overlapping
from symd.model.code import Function, Section
from symd.model.light_typing import Any, NamedTuple

_SYMBOL_SIZE = 24


def with_sections(image: Elf) -> Elf:
    """The image with one synthetic section a PT_LOAD segment: ``.text`` where it is executable, else ``.load``; further
    ones are numbered; and a ``.note`` a PT_NOTE segment. Bytes that the file lacks are lacking in the section too."""
    sections = [Section(0, "", SHT_NULL, 0, 0, 0, b"")]
    seen = {".text": 0, ".load": 0}
    for segment in image.segments:
        if segment.type == PT_LOAD and segment.memory_size:
            name = ".text" if segment.flags & PF_X else ".load"
            seen[name] += 1
            label = name if seen[name] == 1 else f"{name}.{seen[name]}"
            sections.append(_section(len(sections), label, segment, image.stored(segment)))
        elif segment.type == PT_NOTE:
            content = image.stored(segment)
            sections.append(Section(len(sections), ".note", SHT_NOTE, 0, segment.address, len(content), content))
    return image.with_sections(tuple(sections))


def _section(index: int, name: str, segment: ElfSegment, content: bytes) -> Section:
    flags = SHF_ALLOC
    flags |= SHF_EXECINSTR if segment.flags & PF_X else 0
    flags |= SHF_WRITE if segment.flags & PF_W else 0
    return Section(index, name, SHT_PROGBITS, flags, segment.address, segment.memory_size, content)


def dynamic_symbols(image: Elf) -> tuple[Elf, Section] | None:
    """The symbol table that PT_DYNAMIC leads to (DT_SYMTAB, DT_STRTAB, counted by DT_HASH or DT_GNU_HASH) as a section,
    and the image that has it; None without."""
    entries = _dynamic(image)
    symbols_at, strings_at = entries.get(DT_SYMTAB), entries.get(DT_STRTAB)
    if symbols_at is None or strings_at is None or image.header.bits != 64:
        return None
    size = _symbol_count(image, entries) * _SYMBOL_SIZE
    table = image.at_address(symbols_at, size)
    strings = image.at_address(strings_at, entries.get(DT_STRSZ, len(image.data)))
    number = len(image.sections)
    added = (
        Section(number, ".dynstr", SHT_STRTAB, 0, strings_at, len(strings), strings),
        Section(
            number + 1,
            ".dynsym",
            SHT_DYNSYM,
            0,
            symbols_at,
            len(table),
            table[: len(table) // _SYMBOL_SIZE * _SYMBOL_SIZE],
            number,
        ),
    )
    return image.with_sections(image.sections + added), added[1]


def _dynamic(image: Elf) -> dict[int, int]:
    """Tag to value, up to DT_NULL."""
    segment = next((one for one in image.segments if one.type == PT_DYNAMIC), None)
    if segment is None:
        return {}
    data = image.stored(segment)
    result: dict[int, int] = {}
    for tag, value in struct.iter_unpack("<QQ", data[: len(data) // 16 * 16]):
        if tag == DT_NULL:
            break
        result[tag] = value
    return result


def _symbol_count(image: Elf, entries: dict[int, int]) -> int:
    limit = len(image.data) // _SYMBOL_SIZE
    if DT_HASH in entries:
        head = image.at_address(entries[DT_HASH], 8)
        return min(int.from_bytes(head[4:], "little"), limit) if len(head) == 8 else 0
    if DT_GNU_HASH in entries:
        return min(_gnu_hash_count(image.at_address(entries[DT_GNU_HASH], len(image.data))), limit)
    return min(max(entries[DT_STRTAB] - entries[DT_SYMTAB], 0) // _SYMBOL_SIZE, limit)


def _gnu_hash_count(table: bytes) -> int:
    """The highest chain's end: the last symbol a bucket leads to, followed to the entry with bit 0 set."""
    if len(table) < 16:
        return 0
    buckets, first, bloom, _ = struct.unpack_from("<IIII", table)
    start = 16 + 8 * bloom
    chains = start + 4 * buckets
    if chains > len(table):
        return 0
    last: int = max(struct.unpack_from(f"<{buckets}I", table, start), default=0)
    if last < first:
        return int(first)
    for at in range(chains + 4 * (last - first), len(table) - 3, 4):
        last += 1
        if table[at] & 1:
            break
    return last


_PADDING = (0, 0xBF800000, 0xBF9F0000)
"""What linkers leave between sections, and what compilers do behind code: s_nop 0, s_code_end."""


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


_PLACED: Callable[[tuple[Any, ...]], Placed] = partial(tuple.__new__, Placed)
_DESCRIPTOR: Callable[[tuple[Any, ...]], Descriptor] = partial(tuple.__new__, Descriptor)
"""They make a symbol of its fields, in half of the time."""


class Symbols:
    """The symbols of an AMDGPU code object. ``code``: every function and label by place; ``by_name``: functions and
    labels by name; ``descriptors``: the ``.kd`` symbols by their kernel's name; ``relocatable``: symbol values are
    section offsets."""

    def __init__(self, image: Elf) -> None:
        self.relocatable = image.header.type == ET_REL
        self._image, self._sections = image, image.sections
        self._table = read = _read(image, self.relocatable)
        self.descriptors = dict(zip(read.descriptors, map(_DESCRIPTOR, read.descriptors.values()), strict=True))
        self.code = [*map(_PLACED, read.placed(self._is_padding))]
        self.by_name = {placed.name: placed for placed in self.code}

    def _is_padding(self, section: int, offset: int, size: int) -> bool:
        """Whether there are bytes, and no other instructions than those of padding."""
        data = self.bytes_at(section, offset, size)
        whole = len(data) & ~3
        words = struct.iter_unpack("<I", data[:whole])
        return bool(data) and all(word in _PADDING for (word,) in words) and not any(data[whole:])

    def at(self, address: int) -> Section | None:
        """The loaded section that holds an address of a linked object."""
        number = self._table.section_at(address)
        return self._sections[number] if number >= 0 else None

    def extent(self, section: Section, offset: int) -> int:
        """The size of the first symbol at a place in code that owns any; where none is, the bytes up to the next one or
        the section's end."""
        follower = bisect_left(self.code, (section.index, offset), key=lambda placed: (placed.section, placed.offset))
        for placed in islice(self.code, follower, None):
            if placed.section != section.index:
                break
            if placed.offset > offset or placed.size:
                return placed.offset - offset or placed.size
        return section.size - offset

    def functions(self) -> tuple[Function, ...]:
        """Functions, and labels that are in none: a place after a label inside a function is still that
        function's."""
        return tuple(
            [Function(name, number, at, size) for name, number, at, size, _, _, inner in self.code if not inner]
        )

    def bytes_of(self, symbol: Descriptor, size: int) -> bytes:
        """``size`` bytes at a symbol; fewer where its section or its segment ends."""
        data, at = self.bytes_from(symbol, size)
        return data[at : at + size]

    def bytes_from(self, symbol: Descriptor, size: int) -> tuple[bytes, int]:
        """Bytes of which some are the ``size`` bytes at a symbol, and where these begin: its section, or what its
        segment has of them."""
        value, section, offset = symbol
        if section >= 0 and (data := self._sections[section].data):
            return data, offset
        return b"" if self.relocatable else self._image.at_address(value, size), 0

    def bytes_at(self, section: int, offset: int, size: int) -> bytes:
        """``size`` bytes of a section; fewer where it ends."""
        return self._sections[section].data[offset : offset + size]


def symbol_table(image: Elf) -> tuple[Elf, Section] | None:
    """.symtab, else .dynsym, else what PT_DYNAMIC leads to, and the image that has its strings. Raises Malformed where
    its size is none."""
    tables = [one for kind in (SHT_SYMTAB, SHT_DYNSYM) for one in image.of_type(kind) if one.data]
    if not tables:
        return dynamic_symbols(image)
    table = tables[0]
    size = SYMBOL_64.size if image.header.bits == 64 else SYMBOL_32.size
    if len(table.data) % size:
        raise Malformed(f"symbol table size is not a multiple of {size}", where=table.name)
    return image, table


def _read(image: Elf, is_relocatable: bool) -> SymbolTable:
    """What is code or a descriptor. Raises Malformed."""
    sections, found = image.sections, symbol_table(image)
    if found is None:
        return SymbolTable(b"", sections, is_relocatable)
    image, table = found
    read = SymbolTable(image.strings_of(table), sections, is_relocatable)
    try:
        read.read(table.data, image.header.bits == 64)
    except OverlappingStrings:
        raise overlapping(table.name) from None
    return read
