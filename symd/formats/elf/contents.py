"""The contents of ELF sections: notes, the link to a debug file, symbols and their names, compressed content, and the
debug scheme, told from the first unit's header alone.

Decompression is bounded, for other formats too: the size is checked against the budget before a byte is produced, and
held to afterwards.

Sources: System V ABI, chapter 5, "Note Section" (names and descriptors are padded to 4 bytes, in 64-bit images too),
chapter 4, "Symbol Table" (Elf32_Sym, Elf64_Sym), "String Table" and "Section Compression"; binutils for the older
``.zdebug_`` sections; GDB's manual, "Separate Debug Files": the file's name, padded to 4 bytes, and the CRC-32 of its
content.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence

from symd.core import elf_tables as core
from symd.errors import Malformed, Unsupported
from symd.formats.budget import Budget
from symd.formats.elf.constants import ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD, SHF_COMPRESSED, SHT_NOBITS
from symd.model.code import DebugScheme, Section
from symd.model.light_typing import NamedTuple


class Note(NamedTuple):
    """A record (Elf64_Nhdr): its name as ``owner``, n_type as ``type``, its descriptor as ``data``."""

    owner: str
    type: int
    data: bytes


class DebugLink(NamedTuple):
    """The debug file that an object names."""

    name: bytes
    checksum: int


def debug_link(sections: Iterable[Section]) -> DebugLink | None:
    """What .gnu_debuglink says, without folders; None where there is no such section, or nothing in it, or the debug
    data is here."""
    link = None
    for section in sections:
        if section.name.startswith((".debug_", ".zdebug_")):
            return None
        if section.name == ".gnu_debuglink":
            name = section.data.partition(b"\0")[0]
            whole = 0 < len(name) <= len(section.data) - 5
            link = DebugLink(name.rpartition(b"/")[2], int.from_bytes(section.data[-4:], "little")) if whole else None
    return link


def notes_in(data: bytes, where: str, only: str | None = None) -> Iterator[Note]:
    """The notes of one section's or segment's content, with ``only`` those of that owner: others are not copied, which
    may be large. Raises Malformed where one leaves it."""
    at = 0
    while at + 12 <= len(data):
        name_size, size, kind = struct.unpack_from("<III", data, at)
        start = at + 12 + (name_size + 3 & ~3)
        if start + size > len(data):
            raise Malformed(f"the note at byte {at} ends past the section", where=where)
        owner = data[at + 12 : at + 12 + name_size].split(b"\0")[0].decode("utf-8", "replace")
        if only in (None, owner):
            yield Note(owner, kind, data[start : start + size])
        at = start + (size + 3 & ~3)


def string_at(table: bytes, offset: int) -> str:
    """The string at ``offset``; "" where that leaves the table."""
    end = table.find(0, offset)
    return str(table[offset : end if end >= 0 else len(table)], "utf-8", "replace")


def overlapping(where: str) -> Malformed:
    """The error about a table whose strings are together far longer than it."""
    return Malformed("the strings of its table overlap and are more than 16 times as long as the table", where=where)


def strings_at(table: bytes, offsets: Sequence[int], where: str) -> list[str]:
    """The strings at some offsets. Raises Malformed where these share so many ends that they take far more memory than
    the table."""
    found = core.strings_at(table, offsets)
    if found is None:
        raise overlapping(where)
    return found


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


_CHDR_64 = struct.Struct("<I4xQ8x")
_CHDR_32 = struct.Struct("<II4x")
ZDEBUG = ".zdebug_"
"""What the names of sections begin with that are compressed without a flag."""
_ZDEBUG_HEADER = 12
"""Bytes in front of the zlib stream of a ``.zdebug_`` section: "ZLIB", then the size as a big-endian u64."""


def decompressed(section: Section, bits: int, budget: Budget, where: str) -> Section:
    """The section with its content expanded, under its plain name; the same one where it is not compressed."""
    if section.flags & SHF_COMPRESSED and section.type != SHT_NOBITS:
        content = _behind_header(section.data, bits, budget, where)
        return section.changed(content=content, size=len(content), flags=section.flags & ~SHF_COMPRESSED)
    if section.name.startswith(ZDEBUG):
        data = section.data
        if data[:4] == b"ZLIB" and len(data) >= _ZDEBUG_HEADER:
            content = inflate(data[_ZDEBUG_HEADER:], int.from_bytes(data[4:12], "big"), budget, where)
            return section.changed(name="." + section.name[2:], content=content, size=len(content))
    return section


def _behind_header(data: bytes, bits: int, budget: Budget, where: str) -> bytes:
    """What the stream after an Elf32_Chdr or Elf64_Chdr expands to."""
    layout = _CHDR_64 if bits == 64 else _CHDR_32
    if len(data) < layout.size:
        raise Malformed("is marked compressed and is too short for a compression header", where=where)
    kind, size = layout.unpack_from(data)
    if kind == ELFCOMPRESS_ZLIB:
        return inflate(data[layout.size :], size, budget, where)
    if kind == ELFCOMPRESS_ZSTD:
        return expand_zstd(data[layout.size :], size, budget, where)
    raise Unsupported(f"compression type {kind} is not known (1 is zlib, 2 is zstd)", where=where)


def inflate(data: bytes, size: int, budget: Budget, where: str) -> bytes:
    """A zlib stream that must expand to exactly ``size`` bytes."""
    budget.charge_expansion(size, where)
    machine = zlib.decompressobj()
    try:
        result = machine.decompress(data, size + 1)
    except zlib.error as error:
        raise Malformed(f"zlib data is damaged: {error}", where=where) from error
    return _exactly(result, size, "zlib", where)


def expand_zstd(data: bytes | memoryview, size: int, budget: Budget, where: str) -> bytes:
    """A zstd frame that must expand to exactly ``size`` bytes."""
    import zstandard  # noqa: PLC0415 - 7 of the 30 ms of one question: few files have such a part

    budget.charge_expansion(size, where)
    try:
        with zstandard.ZstdDecompressor().stream_reader(data) as reader:
            result = reader.read(size + 1)
    except zstandard.ZstdError as error:
        raise Malformed(f"zstd data is damaged: {error}", where=where) from error
    return _exactly(result, size, "zstd", where)


def _exactly(result: bytes, size: int, method: str, where: str) -> bytes:
    if len(result) != size:
        found = "more" if len(result) > size else str(len(result))
        raise Malformed(f"{method} data should expand to {size} bytes and gives {found}", where=where)
    return result


_BY_VERSION = {
    2: DebugScheme.DWARF_2,
    3: DebugScheme.DWARF_3,
    4: DebugScheme.DWARF_4,
    5: DebugScheme.DWARF_5,
}


_HEADER = 14
"""Bytes of a unit up to its version, in the 64-bit format."""


def debug_scheme(sections: Iterable[Section]) -> DebugScheme:
    """The kind of debug data in an ELF image, by the version of the first unit of .debug_info (DWARF 5, 7.5.1);
    LINE_ONLY where there are only line tables, not all of them empty."""
    found = {section.name: section for section in sections if section.name in {".debug_info", ".debug_line"}}
    units = found[".debug_info"].head(_HEADER) if ".debug_info" in found else b""
    at = 12 if units[:4] == b"\xff\xff\xff\xff" else 4  # DWARF 5, 7.4: the 64-bit format's initial length
    scheme = _BY_VERSION.get(int.from_bytes(units[at : at + 2], "little")) if len(units) >= at + 2 else None
    if scheme is not None:
        return scheme
    has_lines = ".debug_line" in found and _has_line_program(found[".debug_line"].data)
    return DebugScheme.LINE_ONLY if has_lines else DebugScheme.NONE


def _has_line_program(lines: bytes) -> bool:
    """Whether any line table has a program after its header (DWARF 5, 6.2.4). A table whose header is damaged counts as
    one with a program: the decoder then says what is wrong with it."""
    at = 0
    while at < len(lines):
        width = 8 if lines[at : at + 4] == b"\xff\xff\xff\xff" else 4
        start = at + (12 if width == 8 else 4)
        end = start + int.from_bytes(lines[start - width : start], "little")
        version = int.from_bytes(lines[start : start + 2], "little")
        header = start + (4 if version >= 5 else 2)
        program = header + width + int.from_bytes(lines[header : header + width], "little")
        if end > len(lines) or program != end:
            return True
        at = end
    return False
