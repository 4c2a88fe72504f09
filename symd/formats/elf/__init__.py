"""ELF as GPU compilers write it: header, sections, segments. It is lenient where they deviate (version numbers, missing
program headers, several sections at address 0) and strict where a lie would be read as truth. ``contents`` reads what
is in sections, ``writer`` writes images, and ``constants`` has the numbers under their own names.

Source: System V ABI, gABI 4.1/draft, chapters 4 and 5."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property, lru_cache, partial

from symd.core import elf_tables as core
from symd.errors import Malformed, Unsupported
from symd.formats.budget import Budget
from symd.formats.elf.constants import (
    ELFCLASS32,
    ELFCLASS64,
    ELFDATA2LSB,
    ELFDATA2MSB,
    EM_CUDA,
    MAGIC,
    NT_GNU_BUILD_ID,
    PN_XNUM,
    PT_LOAD,
    PT_NOTE,
    PT_NULL,
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHN_UNDEF,
    SHN_XINDEX,
    SHT_CUDA_GLOBAL,
    SHT_CUDA_INFO,
    SHT_CUDA_SHARED,
    SHT_DYNSYM,
    SHT_NOBITS,
    SHT_NOTE,
    SHT_NULL,
    SHT_SYMTAB,
    SHT_ZEBIN_ZEINFO,
)
from symd.formats.elf.contents import (
    DebugLink,
    Note,
    Symbol,
    debug_link,
    decompressed,
    notes_in,
    string_at,
    strings_at,
)
from symd.model.code import ImageBytes, Section
from symd.model.light_typing import Any, NamedTuple

__all__ = (
    "MAGIC",
    "DebugLink",
    "Elf",
    "ElfSegment",
    "Header",
    "Note",
    "SectionHeader",
    "Symbol",
    "debug_link",
    "image_size",
    "kind",
    "parse",
    "parse_header",
    "section_headers",
    "section_names",
    "string_at",
)


SECTION_HEADER_64 = struct.Struct("<IIQQQQIIQQ")
SECTION_HEADER_32 = struct.Struct("<IIIIIIIIII")
PROGRAM_HEADER_64 = struct.Struct("<IIQQQQQQ")
PROGRAM_HEADER_32 = struct.Struct("<IIIIIIII")
SYMBOL_64 = struct.Struct("<IBBHQQ")
SYMBOL_32 = struct.Struct("<IIIBBH")
FILE_HEADER_64 = struct.Struct("<HHIQQQIHHHHHH")
"""The file header of a 64-bit image behind the 16 bytes of e_ident (gABI, "ELF Header")."""
FILE_HEADER_32 = struct.Struct("<HHIIIIIHHHHHH")
_IDENT_SIZE = 16
_EMPTY = frozenset({SHT_NULL, SHT_NOBITS})
"""Sections without content in the file."""
_EMPTY_OF_MACHINE = {EM_CUDA: _EMPTY | {SHT_CUDA_GLOBAL, SHT_CUDA_SHARED}}
_ADDRESS_SPACE_BYTES = 1 << 64
_SYMBOL: Callable[[tuple[Any, ...]], Symbol] = partial(tuple.__new__, Symbol)
"""Makes a symbol of its fields, in half of the time."""
_HEADER_STEPS = 8
"""Work units charged per section header."""
_STEPS = {SHT_SYMTAB: 1, SHT_DYNSYM: 1, SHT_NOTE: 6, SHT_CUDA_INFO: 12, SHT_ZEBIN_ZEINFO: 12}
"""Work units charged per six bytes of a section that is read entry by entry, by section type: a symbol has 24 bytes, an
element of a note may have one."""
_MAX_TABLE_BYTES = 16 << 20
"""Four times what the most headers take that an image can have."""


class Header(NamedTuple):
    """The file header; ``bits``, ``osabi`` and ``abi_version`` are of e_ident, the others in the order of the file."""

    bits: int
    osabi: int
    abi_version: int
    type: int
    machine: int
    version: int = 1
    entry: int = 0
    phoff: int = 0
    shoff: int = 0
    flags: int = 0
    ehsize: int = 0
    phentsize: int = 0
    phnum: int = 0
    shentsize: int = 0
    shnum: int = 0
    shstrndx: int = 0


class SectionHeader(NamedTuple):
    """One entry of the section table, in the order of the file; ``name`` is an offset in the table of section names."""

    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry_size: int


_RawHeader = tuple[int, ...]
"""The fields of a ``SectionHeader``: thousands are read that nobody asks by name."""


class ElfSegment(NamedTuple):
    """One program header, without its physical address."""

    type: int
    flags: int
    offset: int
    address: int
    file_size: int
    memory_size: int
    align: int


class Elf:
    """One ELF image. ``sections`` begins with the null section when there is a section table at all; compressed debug
    sections are already expanded and bear their plain name."""

    def __init__(
        self, header: Header, data: bytes, sections: tuple[Section, ...], segments: tuple[ElfSegment, ...] = ()
    ) -> None:
        self.header, self.data, self.sections, self.segments = header, data, sections, segments
        self._by_type: dict[int, list[Section]] | None = None

    def with_sections(self, sections: tuple[Section, ...]) -> Elf:
        """A copy of the image with other sections."""
        return Elf(self.header, self.data, sections, self.segments)

    @cached_property
    def by_name(self) -> dict[str, Section]:
        """The first section of each name."""
        return {section.name: section for section in reversed(self.sections)}

    def of_type(self, kind: int) -> Sequence[Section]:
        """The sections of a type, in order."""
        if self._by_type is None:
            self._by_type = {}
            for section in self.sections:
                self._by_type.setdefault(section.type, []).append(section)
        return self._by_type.get(kind, ())

    def symbols(self, table: Section, types: Sequence[int] = ()) -> list[Symbol]:
        """The entries of a symbol table section, in order, the null entry included; with ``types`` those of them alone
        that are defined."""
        layout = SYMBOL_64 if self.header.bits == 64 else SYMBOL_32
        data = table.data
        if len(data) % layout.size:
            raise Malformed(f"symbol table size is not a multiple of {layout.size}", where=table.name)
        rows = [*layout.iter_unpack(data)]
        if layout is SYMBOL_32:
            rows = [(name, info, other, section, value, size) for name, value, size, info, other, section in rows]
        if types:
            rows = [row for row in rows if row[3] != SHN_UNDEF and row[1] & 15 in types]
        names = strings_at(self.strings_of(table), [each[0] for each in rows], table.name)
        return [
            _SYMBOL((name, value, size, info & 15, info >> 4, other, section))
            for name, (_, info, other, section, value, size) in zip(names, rows, strict=True)
        ]

    def strings_of(self, table: Section) -> bytes:
        """The table of strings that another table's sh_link names; none where it names none."""
        return self.sections[table.link].data if table.link < len(self.sections) else b""

    def notes(self, only: str | None = None) -> Iterator[tuple[str, Note]]:
        """(section name or "segment", note) of every SHT_NOTE section; of the PT_NOTE segments where there is no
        section table. ``only`` as of ``notes_in``."""
        found = [(section.name, section.data) for section in self.of_type(SHT_NOTE)]
        if not self.sections:
            found = [("segment", self.stored(segment)) for segment in self.segments if segment.type == PT_NOTE]
        for where, data in found:
            for note in notes_in(data, where, only):
                yield where, note

    def build_id(self) -> str | None:
        """The hexadecimal digits of the build ID note (NT_GNU_BUILD_ID; elfutils, binutils and LLVM's linkers write
        it); None where there is none, or notes cannot be read."""
        try:
            found = (note.data for _, note in self.notes("GNU") if note.type == NT_GNU_BUILD_ID)
            return next((data.hex() for data in found if data), None)
        except Malformed:
            return None

    def stored(self, segment: ElfSegment) -> bytes:
        """What the file holds of a segment."""
        return self.data[segment.offset : segment.offset + segment.file_size]

    def at_address(self, address: int, size: int) -> bytes:
        """``size`` bytes that are loaded at ``address``, through the PT_LOAD segments; fewer where the file ends."""
        for segment in self.segments:
            inside = address - segment.address
            if segment.type == PT_LOAD and 0 <= inside < segment.file_size:
                start = segment.offset + inside
                return self.data[start : start + min(size, segment.file_size - inside)]
        return b""


class ElfKind(NamedTuple):
    """e_type and e_machine of an image."""

    type: int
    machine: int


def kind(data: bytes) -> ElfKind | None:
    """What an image is, by its first 20 bytes alone (0 where they are missing); None for what is no ELF. Never
    raises."""
    return _kind(data[:20])


@lru_cache(16)
def _kind(head: bytes) -> ElfKind | None:
    """``kind``, kept for the last heads: every reader of ELF images asks it of the same file."""
    return ElfKind(*struct.unpack("<HH", head[16:].ljust(4, b"\0"))) if head[:4] == MAGIC else None


def parse(data: bytes, budget: Budget, where: str = "ELF", *, section_table: bool = True) -> Elf:
    """Read header, section and program header tables; without ``section_table`` as if the image had none. Raises
    Malformed where a table or a section leaves the file, Unsupported for big-endian images."""
    header = parse_header(data, where)
    sections = _sections(data, header, budget, where) if section_table else ()
    return Elf(header, data, sections, _segments(data, header, sections, where))


def parse_header(data: bytes, where: str = "ELF") -> Header:
    """The file header. Raises Malformed, and Unsupported for big-endian images."""
    bits = _bits(data, where)
    layout = FILE_HEADER_64 if bits == 64 else FILE_HEADER_32
    if len(data) < _IDENT_SIZE + layout.size:
        raise Malformed(f"the file ends inside the ELF header, at byte {len(data)}", where=where)
    return Header(bits, data[7], data[8], *layout.unpack_from(data, _IDENT_SIZE))


def _bits(data: bytes, where: str) -> int:
    if data[:4] != MAGIC:
        raise Malformed("is not an ELF image: the first bytes are not 7f 45 4c 46", where=where)
    if len(data) < _IDENT_SIZE:
        raise Malformed(f"the file ends inside the ELF header, at byte {len(data)}", where=where)
    if data[4] not in (ELFCLASS32, ELFCLASS64):
        raise Malformed(f"ELF class {data[4]} is neither 32 nor 64 bit", where=where)
    if data[5] == ELFDATA2MSB:
        raise Unsupported("big-endian ELF images are not read", where=where)
    if data[5] != ELFDATA2LSB:
        raise Malformed(f"ELF byte order {data[5]} is not known", where=where)
    return 64 if data[4] == ELFCLASS64 else 32


def section_headers(data: bytes, header: Header) -> list[SectionHeader]:
    """The section table as it is in the file. Raises Malformed where it leaves the file."""
    return [*map(SectionHeader._make, _section_table(data, header, "ELF"))]


def _section_table(data: bytes, header: Header, where: str) -> list[_RawHeader]:
    if not header.shoff:
        return []
    layout = SECTION_HEADER_64 if header.bits == 64 else SECTION_HEADER_32
    offset, entry_size, count = header.shoff, header.shentsize, header.shnum
    if entry_size < layout.size:
        raise Malformed(f"section header size {entry_size} is smaller than {layout.size}", where=where)
    if count == 0 and offset + layout.size <= len(data):
        # Of more than 0xff00 sections sh_size of the null section is the count.
        count = SectionHeader._make(layout.unpack_from(data, offset)).size
    if offset + count * entry_size > len(data):
        raise Malformed(
            f"the section table ({count} entries at byte {offset}) ends past the file's {len(data)} bytes", where=where
        )
    return _rows(data, offset, count, entry_size, layout)


def _rows(data: bytes, offset: int, count: int, entry_size: int, layout: struct.Struct) -> list[_RawHeader]:
    """The entries of a table that is all there."""
    if entry_size == layout.size:
        return [*layout.iter_unpack(data[offset : offset + count * entry_size])]
    return [layout.unpack_from(data, offset + number * entry_size) for number in range(count)]


def section_names(data: bytes, header: Header, headers: Sequence[_RawHeader], where: str = "ELF") -> list[str]:
    """The name of each section. Raises Malformed."""
    number = header.shstrndx
    if number == SHN_XINDEX and headers:
        number = SectionHeader._make(headers[0]).link
    where = f"{where}: section names"
    table = b""
    if 0 < number < len(headers):
        _, kind, _, _, offset, size, *_ = headers[number]
        table = b"" if kind in _EMPTY else data[_extent(data, offset, size, where)]
    return strings_at(table, [each[0] for each in headers], where)


def _sections(data: bytes, header: Header, budget: Budget, where: str) -> tuple[Section, ...]:
    headers = _section_table(data, header, where)
    names = section_names(data, header, headers, where)
    if not headers:
        return ()
    steps = sum([_STEPS[fields[1]] * fields[5] // 6 for fields in headers if fields[1] in _STEPS])
    budget.spend(_HEADER_STEPS * len(headers) + steps, where)
    empty = _EMPTY_OF_MACHINE.get(header.machine, _EMPTY)
    found, are_sound, packed = core.sections(headers, names, empty, len(data), ImageBytes(data), Section)
    if not are_sound:
        _check_sections(data, headers, names, empty, where)
    for number in packed:
        found[number] = decompressed(found[number], header.bits, budget, _place(where, number, names[number]))
    return tuple(found)


def _place(where: str, number: int, name: str) -> str:
    return f"{where}: section {number} {name}".rstrip()


def _check_sections(
    data: bytes, headers: Sequence[_RawHeader], names: Sequence[str], empty: Collection[int], where: str
) -> None:
    """Raises Malformed where one of the sections cannot be, alone or together with those before it."""
    held = 0
    for number, (fields, name) in enumerate(zip(headers, names, strict=True)):
        place = _place(where, number, name)
        begin, size = (0, 0) if fields[1] in empty else (fields[4], fields[5])
        held += size
        _extent(data, begin, size, place)
        if fields[2] & (SHF_ALLOC | SHF_EXECINSTR):
            _check_addresses(fields[3], fields[5], place)
        if held > core.OVERLAP * len(data):
            raise Malformed("sections overlap so much that they hold eight times the file", where=place)


def _extent(data: bytes, offset: int, size: int, where: str) -> slice:
    """Where a section's content is in the file."""
    if offset + size > len(data):
        raise Malformed(f"ends at byte {offset + size}, past the file's {len(data)} bytes", where=where)
    return slice(offset, offset + size)


def _check_addresses(address: int, size: int, where: str) -> None:
    """The end of what is loaded must be an address too: nobody further down need think of numbers that wrap."""
    if address + size >= _ADDRESS_SPACE_BYTES:
        raise Malformed(f"{size} bytes at address {address:#x} pass the end of the 64-bit address space", where=where)


def image_size(read: Callable[[int, int], bytes]) -> int | None:
    """The bytes of the image that begins at offset 0 of ``read``, which takes an offset and a size and returns fewer
    bytes where there are no more: what its tables reach to. None where it has no table, or one that is not all there.
    Raises Malformed, Unsupported."""
    header = parse_header(read(0, _IDENT_SIZE + FILE_HEADER_64.size))
    wide = header.bits == 64
    ends = []
    if header.phoff and header.phnum:
        layout = PROGRAM_HEADER_64 if wide else PROGRAM_HEADER_32
        rows = _whole_table(read, header.phoff, header.phnum, header.phentsize, layout)
        offset, size = (2, 5) if wide else (1, 4)
        ends.append(
            [
                header.phoff + header.phnum * header.phentsize,
                *(row[offset] + row[size] for row in rows if row[0] != PT_NULL),
            ]
        )
    if header.shoff and header.shnum:
        layout = SECTION_HEADER_64 if wide else SECTION_HEADER_32
        rows = _whole_table(read, header.shoff, header.shnum, header.shentsize, layout)
        empty = _EMPTY_OF_MACHINE.get(header.machine, _EMPTY)
        stored = [row[4] + row[5] for row in rows if row[1] not in empty]
        ends.append([header.shoff + header.shnum * header.shentsize, *stored])
    return max(map(max, ends)) if ends and all(len(each) > 1 for each in ends) else None


def _whole_table(
    read: Callable[[int, int], bytes], offset: int, count: int, entry_size: int, layout: struct.Struct
) -> list[_RawHeader]:
    """The entries of a table; none where it is not all there."""
    size = count * entry_size
    data = read(offset, size) if entry_size >= layout.size and size <= _MAX_TABLE_BYTES else b""
    return _rows(data, 0, count, entry_size, layout) if size and size == len(data) else []


def _segments(data: bytes, header: Header, sections: tuple[Section, ...], where: str) -> tuple[ElfSegment, ...]:
    offset, entry_size, count = header.phoff, header.phentsize, header.phnum
    if count == PN_XNUM and sections:
        count = sections[0].info
    if not offset or not count:
        return ()
    layout = PROGRAM_HEADER_64 if header.bits == 64 else PROGRAM_HEADER_32
    if entry_size < layout.size or offset + count * entry_size > len(data):
        raise Malformed(
            f"the program header table ({count} entries at byte {offset}) ends past the file's {len(data)} bytes",
            where=where,
        )
    rows = _rows(data, offset, count, entry_size, layout)
    if header.bits == 64:
        segments = tuple([ElfSegment(t, f, off, addr, fsz, msz, align) for t, f, off, addr, _, fsz, msz, align in rows])
    else:
        segments = tuple([ElfSegment(t, f, off, addr, fsz, msz, align) for t, off, addr, _, fsz, msz, f, align in rows])
    for number, segment in enumerate(segments):
        if segment.type == PT_LOAD:
            _check_addresses(segment.address, segment.memory_size, f"{where}: program header {number}")
    return segments
