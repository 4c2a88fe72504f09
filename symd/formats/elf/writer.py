"""Writes ELF images: small ones from their sections, and whole ones with sections added after what they have.

Source: System V ABI, chapters 4 and 5."""

from __future__ import annotations

from collections.abc import Sequence

from symd.errors import Malformed, Unsupported
from symd.formats.elf import (
    FILE_HEADER_64,
    PROGRAM_HEADER_64,
    SECTION_HEADER_64,
    Header,
    parse_header,
    section_headers,
    section_names,
)
from symd.formats.elf.constants import (
    ELFCLASS64,
    ELFDATA2LSB,
    EV_CURRENT,
    MAGIC,
    PT_NOTE,
    SHN_LORESERVE,
    SHT_NOBITS,
    SHT_NULL,
    SHT_STRTAB,
)
from symd.model.light_typing import NamedTuple

_FILE_HEADER_SIZE = 16 + FILE_HEADER_64.size
_MAX_ALIGNMENT = 4096


class OutputSection(NamedTuple):
    """A section to write. ``size`` counts for SHT_NOBITS, which has no content."""

    name: str
    type: int
    flags: int = 0
    address: int = 0
    size: int = 0
    content: bytes = b""
    link: int = 0
    info: int = 0
    align: int = 1
    entry_size: int = 0

    def header(self, name: int, offset: int) -> bytes:
        """The section's entry in the section table of a 64-bit image (gABI, "Section Header"); ``name`` and
        ``offset`` are where its name and its content stand."""
        return SECTION_HEADER_64.pack(
            *(name, self.type, self.flags, self.address, offset, self.size),
            *(self.link, self.info, self.align, self.entry_size),
        )


SECTION_NAMES = OutputSection(".shstrtab", SHT_STRTAB)
"""Stands for the table of section names, whose content the writer makes."""


class OutputSegment(NamedTuple):
    """A program header over ``sections`` (numbers, from 1, in order of address); it begins ``lead`` bytes early."""

    type: int
    flags: int
    sections: tuple[int, ...]
    lead: int = 0


def stored_sections(data: bytes) -> list[OutputSection]:
    """The sections of a 64-bit image as its file has them, compressed ones still compressed, the null section included.
    Raises Malformed."""
    header = parse_header(data)
    headers = section_headers(data, header)
    result = []
    for name, each in zip(section_names(data, header, headers), headers, strict=True):
        content = b"" if each.type in (SHT_NULL, SHT_NOBITS) else data[each.offset : each.offset + each.size]
        align = each.align if each.align.bit_count() == 1 and each.align <= _MAX_ALIGNMENT else 1
        result.append(
            OutputSection(
                *(name, each.type, each.flags, each.address, each.size, content),
                *(each.link, each.info, align, each.entry_size),
            )
        )
    return result


def image_of(header: Header, sections: Sequence[OutputSection], segments: Sequence[OutputSegment] = ()) -> bytes:
    """A 64-bit little-endian image with the OS ABI, type, machine, version, entry and flags of ``header``. The section
    named .shstrtab, which must be there, gets the names; a null section goes first. Raises Malformed for sections of a
    segment between which there is less room than what is there takes."""
    table, starts = _names(sections)
    sections = [
        one._replace(content=table, size=len(table)) if one.name == SECTION_NAMES.name else one for one in sections
    ]
    body, offsets = _packed(_FILE_HEADER_SIZE + PROGRAM_HEADER_64.size * len(segments), sections, segments)
    body += bytes(-len(body) % 8)
    section_table = len(body)
    body += bytes(SECTION_HEADER_64.size)
    for section, start, offset in zip(sections, starts, offsets, strict=True):
        body += section.header(start, offset)
    names_at = next(number for number, one in enumerate(sections, 1) if one.name == SECTION_NAMES.name)
    at = _FILE_HEADER_SIZE
    body[:at] = _file_header(header, len(segments), section_table, len(sections) + 1, names_at)
    for segment in segments:
        packed = _program_header(segment, sections, offsets)
        body[at : at + len(packed)] = packed
        at += len(packed)
    return bytes(body)


def with_sections(data: bytes, added: Sequence[OutputSection]) -> bytes:
    """A 64-bit image with more sections: what it has stays where it is, byte for byte; the new content, the names of
    all sections and a new section table follow. Raises Malformed, and Unsupported for more sections than a header
    counts."""
    header, kept = parse_header(data), stored_sections(data)
    if header.bits != 64:
        raise Unsupported("only 64-bit images are written")
    if len(kept) + len(added) + 1 >= SHN_LORESERVE:
        raise Unsupported(f"{len(kept) + len(added)} sections are more than one image is written with")
    body, offsets = bytearray(data), [each.offset for each in section_headers(data, header)]
    sections = [*kept, *added, SECTION_NAMES]
    table, starts = _names(sections)
    sections[-1] = SECTION_NAMES._replace(content=table, size=len(table))
    for section in sections[len(kept) :]:
        body += bytes(-len(body) % max(section.align, 1))
        offsets.append(len(body))
        body += section.content
    body += bytes(-len(body) % 8)
    changed = header._replace(
        shoff=len(body), shentsize=SECTION_HEADER_64.size, shnum=len(sections), shstrndx=len(sections) - 1
    )
    body[16:_FILE_HEADER_SIZE] = FILE_HEADER_64.pack(*changed[3:])
    for section, start, offset in zip(sections, starts, offsets, strict=True):
        body += section.header(start, offset)
    return bytes(body)


def _names(sections: Sequence[OutputSection]) -> tuple[bytes, list[int]]:
    """A string table of the sections' names, and where each begins; "" is at 0."""
    table = bytearray(b"\0")
    starts: list[int] = []
    for section in sections:
        starts.append(len(table) if section.name else 0)
        table += section.name.encode() + b"\0" if section.name else b""
    return bytes(table), starts


def _packed(
    start: int, sections: Sequence[OutputSection], segments: Sequence[OutputSegment]
) -> tuple[bytearray, list[int]]:
    """``start`` bytes for the headers and all content after them; the file offset of each section. Sections of one
    segment keep their distance from each other; all else is as tight as alignment lets it be."""
    body = bytearray(start)
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
        if section.type != SHT_NOBITS:
            if at < len(body):
                raise Malformed(f"{section.name} begins in its segment where another section has not ended")
            body += bytes(at - len(body)) + section.content
    return body, offsets


def _program_header(segment: OutputSegment, sections: Sequence[OutputSection], offsets: Sequence[int]) -> bytes:
    covered = [(sections[number - 1], offsets[number - 1]) for number in segment.sections]
    first, offset = covered[0]
    filled = [at + one.size for one, at in covered if one.type != SHT_NOBITS]
    end = max(one.address + one.size for one, _ in covered)
    start = first.address - segment.lead
    stored = max(filled, default=offset - segment.lead) - (offset - segment.lead)
    if segment.type == PT_NOTE:
        start, end = offset, offset + first.size
    align = max(*(one.align for one, _ in covered), 1)
    while (offset - segment.lead - start) % align:
        align //= 2
    return PROGRAM_HEADER_64.pack(
        *(segment.type, segment.flags, offset - segment.lead, start, start),
        *(stored, end - start, align),
    )


def _file_header(like: Header, segments: int, section_table: int, sections: int, names_at: int) -> bytes:
    ident = MAGIC + bytes([ELFCLASS64, ELFDATA2LSB, EV_CURRENT, like.osabi, like.abi_version]) + bytes(7)
    header = like._replace(
        phoff=_FILE_HEADER_SIZE if segments else 0,
        shoff=section_table,
        ehsize=_FILE_HEADER_SIZE,
        phentsize=PROGRAM_HEADER_64.size if segments else 0,
        phnum=segments,
        shentsize=SECTION_HEADER_64.size,
        shnum=sections,
        shstrndx=names_at,
    )
    return ident + FILE_HEADER_64.pack(*header[3:])
