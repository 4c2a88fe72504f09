"""Writes small ELF images: sections one behind the other, as tight as their alignment lets them.

Source: System V ABI, chapters 4 and 5."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace

from symd.elf.reader import Elf

_NOBITS, _STRTAB = 8, 3
_ALLOC = 0x2


@dataclass(frozen=True, slots=True)
class Output:
    """A section to write; ``size`` counts for sections without content."""

    name: str
    kind: int
    flags: int
    address: int
    size: int
    content: bytes = field(repr=False)
    link: int
    info: int
    align: int
    unit: int


@dataclass(frozen=True, slots=True)
class Segment:
    """A program header over ``sections`` (numbers, from 1, in order of address); it begins ``lead`` bytes early."""

    kind: int
    flags: int
    sections: tuple[int, ...]
    lead: int


def image_of(like: Elf, sections: list[Output], segments: list[Segment]) -> bytes:
    """A 64-bit little-endian image with the identification, type, machine, flags and entry of ``like``. The section named
    .shstrtab gets the names; a null section goes first."""
    sections, names = _named(sections)
    heads = bytes(64 + 56 * len(segments))
    body, offsets = _packed(heads, sections, segments)
    body += bytes(-len(body) % 8)
    table = len(body)
    body += bytes(64)
    for section, offset, name in zip(sections, offsets, names, strict=True):
        body += struct.pack(
            "<IIQQQQIIQQ",
            *(name, section.kind, section.flags, section.address, offset, section.size),
            *(section.link, section.info, section.align, section.unit),
        )
    names_at = next(number for number, section in enumerate(sections, 1) if section.name == ".shstrtab")
    body[:64] = _header(like, len(segments), table, len(sections) + 1, names_at)
    for number, segment in enumerate(segments):
        body[64 + 56 * number : 120 + 56 * number] = _program_header(segment, sections, offsets)
    return bytes(body)


def _named(sections: list[Output]) -> tuple[list[Output], list[int]]:
    strings = bytearray(b"\0")
    places: list[int] = []
    for section in sections:
        places.append(len(strings))
        strings += section.name.encode() + b"\0"
    content = bytes(strings)
    named = [replace(one, content=content, size=len(content)) if one.name == ".shstrtab" else one for one in sections]
    return named, places


def _packed(heads: bytes, sections: list[Output], segments: list[Segment]) -> tuple[bytearray, list[int]]:
    """File offsets. Sections of one segment keep their distance from each other; all else is packed."""
    body = bytearray(heads)
    offsets = [0] * len(sections)
    follows = {b: a for segment in segments for a, b in zip(segment.sections, segment.sections[1:], strict=False)}
    leads = {segment.sections[0]: segment.lead for segment in segments}
    for number, section in enumerate(sections, 1):
        before = follows.get(number)
        if before:
            at = offsets[before - 1] + section.address - sections[before - 1].address
        else:
            at = max(len(body), leads.get(number, 0))
            at += -at % max(section.align, 1)
        offsets[number - 1] = at
        if section.kind != _NOBITS:
            body += bytes(at - len(body)) + section.content
    return body, offsets


def _program_header(segment: Segment, sections: list[Output], offsets: list[int]) -> bytes:
    parts = [(sections[number - 1], offsets[number - 1]) for number in segment.sections]
    first, offset = parts[0]
    filled = [at + one.size for one, at in parts if one.kind != _NOBITS]
    end = max(one.address + one.size for one, _ in parts)
    start = first.address - segment.lead
    stored = max(filled, default=offset - segment.lead) - (offset - segment.lead)
    if segment.kind == 4:
        start, end = offset, offset + first.size
    align = max(*(one.align for one, _ in parts), 1)
    while (offset - segment.lead - start) % align:
        align //= 2
    return struct.pack(
        "<IIQQQQQQ",
        *(segment.kind, segment.flags, offset - segment.lead, start, start),
        *(stored, end - start, align),
    )


def _header(like: Elf, segments: int, table: int, sections: int, names: int) -> bytes:
    ident = like.data[:16]
    fixed = struct.pack("<HHIQ", like.type, like.machine, like.version, like.entry)
    places = struct.pack("<QQI", 64 if segments else 0, table, like.flags)
    counts = struct.pack("<HHHHHH", 64, 56 if segments else 0, segments, 64, sections, names)
    return ident + fixed + places + counts
