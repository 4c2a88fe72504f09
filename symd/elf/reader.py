"""ELF as GPU compilers write it: header, sections, segments, symbols, notes. It is lenient where they deviate (version
numbers, missing program headers, several sections at address 0) and strict where a lie would be read as truth.

Source: System V ABI, gABI 4.1/draft, chapters 4 and 5."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.budget import Budget
from symd.elf.compression import expand_zstd, inflate
from symd.errors import Malformed, Unsupported
from symd.model.code import Section

MAGIC = b"\x7fELF"
SHT_SYMTAB, SHT_NOTE, SHT_NOBITS, SHT_DYNSYM = 2, 7, 8, 11
SHF_COMPRESSED = 0x800
STT_FUNC = 2

_SYMBOL_64 = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
_SYMBOL_32 = np.dtype(
    [("name", "<u4"), ("value", "<u4"), ("size", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2")]
)


class Symbol(NamedTuple):
    """``type`` and ``bind`` are the low and high nibble of st_info; ``section`` is st_shndx."""

    name: str
    value: int
    size: int
    type: int
    bind: int
    other: int
    section: int


class Segment(NamedTuple):
    type: int
    flags: int
    offset: int
    address: int
    file_size: int
    memory_size: int
    align: int


class Note(NamedTuple):
    owner: str
    type: int
    data: bytes


@dataclass(frozen=True)
class Elf:
    """One ELF image. ``sections`` begins with the null section when there is a section table at all; compressed debug
    sections are already expanded and bear their plain name."""

    bits: int
    osabi: int
    abi_version: int
    type: int
    machine: int
    version: int
    entry: int
    flags: int
    data: bytes = field(repr=False)
    sections: tuple[Section, ...] = field(repr=False)
    segments: tuple[Segment, ...] = field(repr=False)
    warnings: tuple[str, ...] = ()

    @cached_property
    def by_name(self) -> dict[str, Section]:
        """The first section of each name."""
        return {section.name: section for section in reversed(self.sections)}

    def symbols(self, table: Section) -> list[Symbol]:
        """The entries of a symbol table section, in order, the null entry included."""
        columns = self.symbol_columns(table)
        info = columns["info"]
        numbers = (columns["value"], columns["size"], info & 15, info >> 4, columns["other"], columns["section"])
        names = self.symbol_names(table, columns["name"])
        return [*map(Symbol, names, *(column.tolist() for column in numbers))]

    def symbol_names(self, table: Section, offsets: NDArray[np.uint32]) -> list[str]:
        """The strings at ``offsets`` of the string table that belongs to a symbol table section. Raises Malformed where they
        overlap so much that they were made to exhaust memory."""
        strings = self.sections[table.link].data if table.link < len(self.sections) else b""
        return _many_strings(strings, offsets, table.name)

    def symbol_columns(self, table: Section) -> NDArray[np.void]:
        """The same as a structured array with the fields name (offset in the string table), info, other, section,
        value, size."""
        dtype = _SYMBOL_64 if self.bits == 64 else _SYMBOL_32
        if len(table.data) % dtype.itemsize:
            raise Malformed(f"symbol table size is not a multiple of {dtype.itemsize}", where=table.name)
        return np.frombuffer(table.data, dtype)

    def notes(self) -> Iterator[tuple[str, Note]]:
        """(section name or "segment", note) of every SHT_NOTE section; of the PT_NOTE segments where there is no
        section table."""
        found = [(section.name, section.data) for section in self.sections if section.type == SHT_NOTE]
        if not self.sections:
            found = [("segment", self._segment_data(segment)) for segment in self.segments if segment.type == 4]
        for where, data in found:
            for note in _notes(data, where):
                yield where, note

    def _segment_data(self, segment: Segment) -> bytes:
        return self.data[segment.offset : segment.offset + segment.file_size]

    def at_address(self, address: int, size: int) -> bytes:
        """``size`` bytes that are loaded at ``address``, through the PT_LOAD segments; fewer where the file ends."""
        for segment in self.segments:
            inside = address - segment.address
            if segment.type == 1 and 0 <= inside < segment.file_size:
                start = segment.offset + inside
                return self.data[start : start + min(size, segment.file_size - inside)]
        return b""


def parse(data: bytes, budget: Budget, where: str = "ELF") -> Elf:
    """Read header, section and program header tables. Raises Malformed where a table or a section leaves the file,
    Unsupported for big-endian images."""
    bits = _ident(data, where)
    layout = "<HHIQQQIHHHHHH" if bits == 64 else "<HHIIIIIHHHHHH"
    if len(data) < 16 + struct.calcsize(layout):
        raise Malformed(f"the file ends inside the ELF header, at byte {len(data)}", where=where)
    (kind, machine, version, entry, phoff, shoff, flags, _, phentsize, phnum, shentsize, shnum, shstrndx) = (
        struct.unpack_from(layout, data, 16)
    )
    warnings: list[str] = []
    sections = _sections(data, bits, (shoff, shentsize, shnum, shstrndx), budget, where) if shoff else ()
    if phnum == 0xFFFF and sections:
        phnum = sections[0].info
    segments = _segments(data, bits, phoff, phentsize, phnum, where) if phoff and phnum else ()
    return Elf(bits, data[7], data[8], kind, machine, version, entry, flags, data, sections, segments, tuple(warnings))


def _ident(data: bytes, where: str) -> int:
    if data[:4] != MAGIC:
        raise Malformed("is not an ELF image: the first bytes are not 7f 45 4c 46", where=where)
    if len(data) < 16:
        raise Malformed(f"the file ends inside the ELF header, at byte {len(data)}", where=where)
    if data[4] not in (1, 2):
        raise Malformed(f"ELF class {data[4]} is neither 32 nor 64 bit", where=where)
    if data[5] == 2:
        raise Unsupported("big-endian ELF images are not read", where=where)
    if data[5] != 1:
        raise Malformed(f"ELF byte order {data[5]} is not known", where=where)
    return 64 if data[4] == 2 else 32


def _sections(
    data: bytes, bits: int, table: tuple[int, int, int, int], budget: Budget, where: str
) -> tuple[Section, ...]:
    offset, entry_size, count, names_index = table
    headers = _headers(data, bits, offset, entry_size, count, where)
    if names_index == 0xFFFF and headers:
        names_index = headers[0][6]
    names = b""
    if 0 < names_index < len(headers):
        names = data[_extent(data, headers[names_index], f"{where}: section names")]
    strings = _few_strings(names, [header[0] for header in headers], f"{where}: section names")
    result, held = [], 0
    for number, (header, name) in enumerate(zip(headers, strings, strict=True)):
        place = f"{where}: section {number} {name}".rstrip()
        extent = _extent(data, header, place)
        content = partial(_cut, data, extent)
        held += extent.stop - extent.start
        if held > 8 * len(data):
            raise Malformed("sections overlap so much that they hold eight times the file", where=place)
        section = Section(
            number, name, header[1], header[2], header[3], header[5], content, header[6], header[7], header[9]
        )
        result.append(_expanded(section, bits, budget, place))
    return tuple(result)


def _headers(data: bytes, bits: int, offset: int, entry_size: int, count: int, where: str) -> list[tuple[int, ...]]:
    """Section headers as tuples (name, type, flags, addr, offset, size, link, info, align, entsize)."""
    layout = struct.Struct("<IIQQQQIIQQ" if bits == 64 else "<IIIIIIIIII")
    if entry_size < layout.size:
        raise Malformed(f"section header size {entry_size} is smaller than {layout.size}", where=where)
    if count == 0 and offset + layout.size <= len(data):
        count = layout.unpack_from(data, offset)[5]  # more than 0xff00 sections: the count is in the null section
    if offset + count * entry_size > len(data):
        raise Malformed(
            f"the section table ({count} entries at byte {offset}) ends past the file's {len(data)} bytes", where=where
        )
    return [layout.unpack_from(data, offset + number * entry_size) for number in range(count)]


def _extent(data: bytes, header: tuple[int, ...], where: str) -> slice:
    """Where a section's content stands in the file."""
    offset, size = header[4], header[5]
    if header[1] in (0, SHT_NOBITS):
        return slice(0, 0)
    if offset + size > len(data):
        raise Malformed(f"ends at byte {offset + size}, past the file's {len(data)} bytes", where=where)
    return slice(offset, offset + size)


def _cut(data: bytes, extent: slice) -> bytes:
    return data[extent]


def _expanded(section: Section, bits: int, budget: Budget, where: str) -> Section:
    if section.flags & SHF_COMPRESSED and section.type != SHT_NOBITS:
        content = _compressed(section.data, bits, budget, where)
        return replace(section, content=content, size=len(content), flags=section.flags & ~SHF_COMPRESSED)
    if section.name.startswith(".zdebug_") and section.data[:4] == b"ZLIB" and len(section.data) >= 12:
        size = int.from_bytes(section.data[4:12], "big")
        content = inflate(section.data[12:], size, budget, where)
        return replace(section, name="." + section.name[2:], content=content, size=len(content))
    return section


def _compressed(data: bytes, bits: int, budget: Budget, where: str) -> bytes:
    """gABI, "Section Compression": Elf32_Chdr/Elf64_Chdr, then the stream."""
    head = 24 if bits == 64 else 12
    if len(data) < head:
        raise Malformed("is marked compressed and is too short for a compression header", where=where)
    kind, size = struct.unpack_from("<I4xQ" if bits == 64 else "<II", data)
    if kind == 1:
        return inflate(data[head:], size, budget, where)
    if kind == 2:
        return expand_zstd(data[head:], size, budget, where)
    raise Unsupported(f"compression type {kind} is not known (1 is zlib, 2 is zstd)", where=where)


def _segments(data: bytes, bits: int, offset: int, entry_size: int, count: int, where: str) -> tuple[Segment, ...]:
    layout = struct.Struct("<IIQQQQQQ" if bits == 64 else "<IIIIIIII")
    if entry_size < layout.size or offset + count * entry_size > len(data):
        raise Malformed(
            f"the program header table ({count} entries at byte {offset}) ends past the file's {len(data)} bytes",
            where=where,
        )
    rows = (layout.unpack_from(data, offset + number * entry_size) for number in range(count))
    if bits == 64:
        return tuple(Segment(t, f, off, addr, fsz, msz, align) for t, f, off, addr, _, fsz, msz, align in rows)
    return tuple(Segment(t, f, off, addr, fsz, msz, align) for t, off, addr, _, fsz, msz, f, align in rows)


def _notes(data: bytes, where: str) -> Iterator[Note]:
    at = 0
    while at + 12 <= len(data):
        name_size, size, kind = struct.unpack_from("<III", data, at)
        start = at + 12 + (name_size + 3 & ~3)
        if start + size > len(data):
            raise Malformed(f"the note at byte {at} ends past the section", where=where)
        owner = data[at + 12 : at + 12 + name_size].split(b"\0")[0].decode("utf-8", "replace")
        yield Note(owner, kind, data[start : start + size])
        at = start + (size + 3 & ~3)


def _few_strings(data: bytes, offsets: Sequence[int], where: str) -> list[str]:
    """A string table read at some offsets. Real tables share tails; one whose strings add up to far more than its own
    size was made to exhaust memory: Malformed."""
    known: dict[int, str] = {}
    left = _most(data)
    for offset in set(offsets):
        known[offset] = _string(data, offset)
        left -= len(known[offset])
        if left < 0:
            raise _overlap(where)
    return [known[offset] for offset in offsets]


def _many_strings(data: bytes, offsets: NDArray[np.uint32], where: str) -> list[str]:
    """The same, where it pays to find the ends of all together."""
    starts, which = np.unique(offsets, return_inverse=True)
    starts = np.minimum(starts.astype(np.int64), len(data))
    ends = np.append(np.flatnonzero(np.frombuffer(data, np.uint8) == 0), len(data))
    ends = ends[np.searchsorted(ends, starts)]
    if int((ends - starts).sum()) > _most(data):
        raise _overlap(where)
    pairs = zip(starts.tolist(), ends.tolist(), strict=True)
    if data.isascii():
        text = data.decode("ascii")
        known = [text[start:end] for start, end in pairs]
    else:
        known = [str(data[start:end], "utf-8", "replace") for start, end in pairs]
    return [known[number] for number in which.tolist()]


def _most(data: bytes) -> int:
    """Bytes that the distinct strings of a table may have together."""
    return 16 * len(data) + 65536


def _overlap(where: str) -> Malformed:
    return Malformed("the strings of its table overlap beyond measure", where=where)


def _string(strings: bytes, offset: int) -> str:
    """A NUL-terminated string; "" where the offset leaves the table."""
    end = strings.find(0, offset)
    return str(strings[offset : end if end >= 0 else len(strings)], "utf-8", "replace")


def string_at(strings: bytes, offset: int) -> str:
    """A NUL-terminated UTF-8 string of a string table; "" where the offset leaves it."""
    return _string(strings, offset)


def notes_of(section: Section) -> Iterator[Note]:
    """The notes of one section. Raises Malformed where one leaves it."""
    return _notes(section.data, section.name)


def read_symbols(table: Section) -> NDArray[np.void]:
    """The entries of a 64-bit symbol table section as a structured array (see ``Elf.symbol_columns``)."""
    if len(table.data) % _SYMBOL_64.itemsize:
        raise Malformed(f"symbol table size is not a multiple of {_SYMBOL_64.itemsize}", where=table.name)
    return np.frombuffer(table.data, _SYMBOL_64)


def section_offsets(data: bytes, where: str = "ELF") -> list[int]:
    """Where in the file each section begins (sh_offset), in the order of the section table."""
    if _ident(data, where) == 64:
        table, entry_size, count = struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HH", data, 58)
        return [header[4] for header in _headers(data, 64, table, entry_size, count, where)] if table else []
    table, entry_size, count = struct.unpack_from("<I", data, 32)[0], *struct.unpack_from("<HH", data, 46)
    return [header[4] for header in _headers(data, 32, table, entry_size, count, where)] if table else []
