"""AMDGPU images whose section table was cut off, or never written: sections made from the program headers, symbols found
through PT_DYNAMIC, as the ROCm loader's own dynamic tables name them.

Source: System V ABI, chapter 5, "Dynamic Section" and "Hash Table"; GNU hash table as binutils and lld write it."""

from __future__ import annotations

import struct

from symd.formats.elf import Elf, Segment
from symd.formats.elf.constants import (
    DT_GNU_HASH,
    DT_HASH,
    DT_NULL,
    DT_STRSZ,
    DT_STRTAB,
    DT_SYMTAB,
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
)
from symd.model.code import Section

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


def _section(index: int, name: str, segment: Segment, content: bytes) -> Section:
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
