"""ELF files stated as sections, symbols, relocations and segments (System V ABI, chapters 4 and 5).

build_elf(machine=205, sections=[Section(".text.k", flags=AX, data=code)], symbols=[Symbol("k", section=".text.k")])
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import zstandard

PROGBITS, SYMTAB, STRTAB, RELA, NOTE, NOBITS, REL = 1, 2, 3, 4, 7, 8, 9
WRITE, ALLOC, EXEC, COMPRESSED = 0x1, 0x2, 0x4, 0x800
AX = ALLOC | EXEC
ET_REL, ET_EXEC, ET_DYN = 1, 2, 3
OBJECT, FUNC = 1, 2
LOCAL, GLOBAL, WEAK = 0, 1, 2


class Section(NamedTuple):
    """One section. ``link`` and ``info`` may be section names. ``offset`` and ``size`` are what the header claims,
    instead of the truth."""

    name: str
    type: int = PROGBITS
    flags: int = 0
    address: int = 0
    data: bytes = b""
    link: int | str = 0
    info: int | str = 0
    entsize: int = 0
    align: int = 1
    offset: int | None = None
    size: int | None = None


class Symbol(NamedTuple):
    """One symbol; ``section`` is an index or the name of a section (of several with that name, the first)."""

    name: str
    value: int = 0
    size: int = 0
    section: int | str = 0
    type: int = FUNC
    bind: int = LOCAL
    other: int = 0


class Relocation(NamedTuple):
    """``symbol`` is the number in the symbol table (0: none) or a symbol's name; REL sections ignore ``addend``."""

    offset: int
    symbol: int | str
    type: int
    addend: int = 0


class Segment(NamedTuple):
    """One program header; ``section`` names the section that it covers, and other fields given override what follows
    from that."""

    type: int = 1
    flags: int = 5
    section: str | None = None
    offset: int | None = None
    address: int | None = None
    file_size: int | None = None
    memory_size: int | None = None
    align: int = 1


class _Layout(NamedTuple):
    """Struct formats of one class and byte order."""

    bits: int
    order: str

    @property
    def prefix(self) -> str:
        return "<" if self.order == "little" else ">"

    def header(self, *fields: int) -> bytes:
        return struct.pack(self.prefix + ("HHIQQQIHHHHHH" if self.bits == 64 else "HHIIIIIHHHHHH"), *fields)

    def section(self, *fields: int) -> bytes:
        return struct.pack(self.prefix + ("IIQQQQIIQQ" if self.bits == 64 else "10I"), *fields)

    def segment(self, segment: Segment, offset: int, address: int, file_size: int, memory_size: int) -> bytes:
        places = (offset, address, address, file_size, memory_size)
        if self.bits == 64:
            return struct.pack(self.prefix + "II6Q", segment.type, segment.flags, *places, segment.align)
        return struct.pack(self.prefix + "8I", segment.type, *places, segment.flags, segment.align)

    def symbol(self, name: int, symbol: Symbol, section: int) -> bytes:
        info = symbol.bind << 4 | symbol.type
        if self.bits == 64:
            fields = (name, info, symbol.other, section, symbol.value, symbol.size)
            return struct.pack(self.prefix + "IBBHQQ", *fields)
        return struct.pack(self.prefix + "IIIBBH", name, symbol.value, symbol.size, info, symbol.other, section)

    def relocation(self, entry: Relocation, symbol: int, *, rela: bool) -> bytes:
        word = "Q" if self.bits == 64 else "I"
        info = symbol << 32 | entry.type if self.bits == 64 else symbol << 8 | entry.type
        packed = struct.pack(self.prefix + word * 2, entry.offset, info)
        return packed + (struct.pack(self.prefix + word.lower(), entry.addend) if rela else b"")

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Bytes of the file header, a program header and a section header."""
        return (64, 56, 64) if self.bits == 64 else (52, 32, 40)


def strings(names: Iterable[str]) -> tuple[bytes, list[int]]:
    """A string table of its own copy of each name, and where each starts; "" is at 0."""
    table, places = bytearray(b"\0"), []
    for name in names:
        places.append(len(table) if name else 0)
        table += name.encode() + b"\0" if name else b""
    return bytes(table), places


def compress(section: Section, how: str = "zlib", *, bits: int = 64, order: str = "little") -> Section:
    """The section compressed: "zlib" and "zstd" with an ELF compression header, "gnu" as old ``.zdebug_*``."""
    size = len(section.data)
    if how == "gnu":
        data = b"ZLIB" + size.to_bytes(8, "big") + zlib.compress(section.data)
        return section._replace(name=section.name.replace(".debug_", ".zdebug_", 1), data=data)
    kind, body = (1, zlib.compress) if how == "zlib" else (2, zstandard.ZstdCompressor().compress)
    prefix = "<" if order == "little" else ">"
    header = struct.pack(
        prefix + ("IIQQ" if bits == 64 else "III"), *((kind, 0, size, 1) if bits == 64 else (kind, size, 1))
    )
    return section._replace(flags=section.flags | COMPRESSED, data=header + body(section.data))


def _index(sections: Sequence[Section], which: int | str) -> int:
    if isinstance(which, int):
        return which
    return next(number for number, section in enumerate(sections) if section.name == which)


def _symbol_sections(layout: _Layout, sections: Sequence[Section], symbols: Sequence[Symbol]) -> list[Section]:
    """.symtab and .strtab; locals must come first among ``symbols``, as ELF wants it."""
    table, names = strings(symbol.name for symbol in symbols)
    null = layout.symbol(0, Symbol("", type=0), 0)
    packed = [
        layout.symbol(name, symbol, _index(sections, symbol.section))
        for name, symbol in zip(names, symbols, strict=True)
    ]
    first_global = next((at for at, symbol in enumerate(symbols) if symbol.bind != LOCAL), len(symbols)) + 1
    symtab = Section(
        ".symtab", SYMTAB, data=null + b"".join(packed), link=".strtab", info=first_global, entsize=len(null)
    )
    return [symtab, Section(".strtab", STRTAB, data=table)]


def _relocation_section(
    layout: _Layout, target: str, entries: Sequence[Relocation], symbols: Sequence[Symbol], *, rela: bool
) -> Section:
    names = ["", *(symbol.name for symbol in symbols)]
    numbers = [entry.symbol if isinstance(entry.symbol, int) else names.index(entry.symbol) for entry in entries]
    packed = [layout.relocation(entry, number, rela=rela) for entry, number in zip(entries, numbers, strict=True)]
    size = len(layout.relocation(Relocation(0, 0, 0), 0, rela=rela))
    name, kind = (".rela", RELA) if rela else (".rel", REL)
    return Section(name + target, kind, data=b"".join(packed), link=".symtab", info=target, entsize=size)


def _place(layout: _Layout, sections: Sequence[Section], segments: int) -> tuple[bytes, list[int]]:
    """Everything between the file header and the section headers, and the file offset of each section."""
    header, program_header, _ = layout.sizes
    at = header + program_header * segments
    body, offsets = bytearray(), []
    for section in sections:
        body += bytes(-(at + len(body)) % max(section.align, 1))
        offsets.append(at + len(body) if section.type else 0)
        body += section.data
    body += bytes(-(at + len(body)) % 8)
    return bytes(body), offsets


def _program_headers(
    layout: _Layout, segments: Sequence[Segment], sections: Sequence[Section], offsets: Sequence[int]
) -> bytes:
    packed = b""
    for segment in segments:
        number = _index(sections, segment.section) if segment.section else 0
        covered = sections[number]
        defaults = (offsets[number], covered.address, len(covered.data), len(covered.data))
        given = (segment.offset, segment.address, segment.file_size, segment.memory_size)
        places = [default if value is None else value for value, default in zip(given, defaults, strict=True)]
        packed += layout.segment(segment, *places)
    return packed


def build_elf(
    *,
    machine: int,
    type: int = ET_REL,  # noqa: A002 - ELF's own name for it
    flags: int = 0,
    osabi: int = 0,
    abiversion: int = 0,
    version: int = 1,
    entry: int = 0,
    sections: Sequence[Section] = (),
    symbols: Sequence[Symbol] | None = None,
    relocations: Mapping[str, Sequence[Relocation]] | None = None,
    rela: bool = True,
    segments: Sequence[Segment] = (),
    bits: int = 64,
    order: str = "little",
    section_headers: bool = True,
) -> bytes:
    """An ELF file. Sections are numbered from 1 in the order given; .symtab, .strtab, .rela.* (or .rel.*) of the sections
    named in ``relocations``, and .shstrtab follow. Without ``section_headers`` the file ends before them and says 0."""
    layout = _Layout(bits, order)
    everything = [Section("", 0, align=0), *sections]
    if symbols is not None or relocations:
        everything += _symbol_sections(layout, everything, symbols or ())
    for target, entries in (relocations or {}).items():
        everything.append(_relocation_section(layout, target, entries, symbols or (), rela=rela))
    table, names = strings([*(section.name for section in everything), ".shstrtab"])
    everything.append(Section(".shstrtab", STRTAB, data=table))
    body, offsets = _place(layout, everything, len(segments))
    header_size, program_size, section_size = layout.sizes
    table_at = header_size + program_size * len(segments) + len(body)
    counted = (section_size, len(everything), len(everything) - 1) if section_headers else (0, 0, 0)
    identity = bytes([0x7F, *b"ELF", bits // 32, 1 if order == "little" else 2, 1, osabi, abiversion]) + bytes(7)
    header = layout.header(
        *(type, machine, version, entry),
        *(header_size if segments else 0, table_at if section_headers else 0),
        *(flags, header_size, program_size if segments else 0, len(segments)),
        *counted,
    )
    result = identity + header + _program_headers(layout, segments, everything, offsets) + body
    if section_headers:
        for section, name, offset in zip(everything, names, offsets, strict=True):
            result += _section_header(layout, everything, section, name, offset)
    return result


def _section_header(layout: _Layout, everything: Sequence[Section], section: Section, name: int, offset: int) -> bytes:
    return layout.section(
        *(name, section.type, section.flags, section.address),
        offset if section.offset is None else section.offset,
        len(section.data) if section.size is None else section.size,
        *(_index(everything, section.link), _index(everything, section.info)),
        *(section.align, section.entsize),
    )
