"""Changes to ELF images that know sections: one is taken out, expanded where it is compressed, changed, compressed again and
put back, with a header that is right or wrong on purpose."""

from __future__ import annotations

import random
import struct
import zlib
from functools import lru_cache
from typing import NamedTuple

import zstandard

from symd.config import MIB, Limits
from symd.errors import SymdError
from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.elf import SECTION_HEADER_32, SECTION_HEADER_64, Header, SectionHeader, section_names
from symd.formats.elf.constants import ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD, SHF_COMPRESSED, SHT_NOBITS, SHT_NULL
from symd.formats.elf.contents import decompressed
from symd.model.code import Section
from tests.fuzz.mutations import Change, below
from tests.fuzz.target import Mutate

_SMALL = Limits(expansion=4 * MIB)
"""What a section is expanded to here; larger ones are changed as they are."""


def section_of(*names: str) -> Mutate:
    """Changes one section of an ELF image, one whose name begins with one of ``names`` where they are given; other bytes as
    they are."""

    def mutate(dice: random.Random, data: bytes, change: Change) -> bytes:
        read = _filled_of if len(data) <= _LARGEST_KNOWN else _filled_of.__wrapped__
        filled = read(data, names)
        if not filled or dice.random() < 1 / 16:
            return change(data)
        return _changed(dice, data, filled[below(dice, len(filled))], change)

    return mutate


class _Filled(NamedTuple):
    """A section with contents, and the header of its image."""

    image: Header
    number: int
    header: SectionHeader
    name: str


@lru_cache(maxsize=512)
def _filled_of(data: bytes, names: tuple[str, ...]) -> tuple[_Filled, ...]:
    """The sections with contents whose names begin so; none where the image cannot be read. Most images that are changed are one
    of a few seeds: what was read of them is kept."""
    try:
        header = elf.parse_header(data)
        headers = elf.section_headers(data, header)
        titles = section_names(data, header, headers)
    except SymdError:
        return ()
    return tuple(
        _Filled(header, number, each, title)
        for number, (each, title) in enumerate(zip(headers, titles, strict=True))
        if each.type not in (SHT_NULL, SHT_NOBITS) and each.size and title.startswith(names or "")
    )


_LARGEST_KNOWN = 1 << 16
"""Bytes of an image of which that is kept."""


def _changed(dice: random.Random, data: bytes, section: _Filled, change: Change) -> bytes:
    header, number, old, name = section
    content, method = _expanded(name, old, data, header.bits)
    content = change(content)
    if dice.random() < _MANY_TIMES:
        content, method = _blown_up(dice, content), _QUICKEST if dice.random() < 7 / 8 else ELFCOMPRESS_ZLIB
    if method is None and dice.random() < 1 / 8:
        method = dice.choice((ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD))
    says = len(content) if dice.random() < 15 / 16 else dice.choice((0, len(content) + 1, len(content) * 900, 1 << 40))
    if method is not None:
        content = _compressed(content, says, method, header.bits)
    flags = old.flags | SHF_COMPRESSED if method in (ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD) else old.flags
    return _put(data, header, number, _perhaps_wrong(dice, old._replace(flags=flags)), content)


def _blown_up(dice: random.Random, content: bytes) -> bytes:
    """A piece of it so often that it has a quarter of a megabyte or more; it compresses to a few hundred bytes."""
    at = dice.randrange(len(content)) if content else 0
    piece = content[at : at + dice.choice((1, 2, 4, 8, 16, 24, 40, 1000, len(content)))] or b"\0"
    return content[:at] + piece * (dice.choice((1 << 18, 1 << 20)) // len(piece)) + content[at:]


_QUICKLY = 1
"""zlib's level: what is expanded again is the same."""
_QUICKEST = ELFCOMPRESS_ZSTD
"""In a tenth of the time, for what is large."""
_MANY_TIMES = 1 / 48
"""The share of sections that are made large."""
_GNU = -1
"""The older ``.zdebug_`` sections."""


def _expanded(name: str, old: SectionHeader, data: bytes, bits: int) -> tuple[bytes, int | None]:
    """A section's plain content, and how it was compressed."""
    stored = data[old.offset : old.offset + old.size]
    section = Section(0, name, old.type, old.flags, 0, old.size, stored)
    try:
        plain = decompressed(section, bits, Budget(_SMALL), name)
    except SymdError:
        return stored, None
    if plain is section:
        return stored, None
    return plain.data, _GNU if name.startswith(".zdebug_") else int.from_bytes(stored[:4], "little")


def _compressed(content: bytes, says: int, method: int, bits: int) -> bytes:
    """``content`` behind a compression header that says that it has ``says`` bytes."""
    body = zstandard.compress(content) if method == ELFCOMPRESS_ZSTD else zlib.compress(content, _QUICKLY)
    if method == _GNU:
        return b"ZLIB" + says.to_bytes(8, "big") + body
    if bits == 64:
        return struct.pack("<IIQQ", method, 0, says, 1) + body
    return struct.pack("<III", method, says & 0xFFFFFFFF, 1) + body


def _perhaps_wrong(dice: random.Random, header: SectionHeader) -> SectionHeader:
    """Now and then one field of a section header lies."""
    if dice.random() > 1 / 8:
        return header
    field = dice.choice(header._fields)
    value = getattr(header, field)
    return header._replace(
        **{field: dice.choice((value + 1, value - 1, value * 2, 0, 0xFFFFFFFF, 1 << 63)) % (1 << 64)}
    )


def _put(data: bytes, header: Header, number: int, new: SectionHeader, content: bytes) -> bytes:
    """The image with section ``number`` made of ``content``: in its old place where it fits, else behind everything."""
    image = bytearray(data)
    offset, moved = new.offset, new
    if len(content) > new.size or new.offset > len(data):
        offset = len(image) + -len(image) % 8
        moved = new._replace(offset=offset)
    image[len(image) : offset] = bytes(max(0, offset - len(image)))
    image[offset : offset + len(content)] = content
    if moved.size == new.size:
        moved = moved._replace(size=len(content))
    layout = SECTION_HEADER_64 if header.bits == 64 else SECTION_HEADER_32
    at = header.shoff + number * header.shentsize
    mask = (1 << 32) - 1
    fields = moved if header.bits == 64 else [value & mask for value in moved]
    packed = layout.pack(*(value & mask if at in (0, 1, 6, 7) else value for at, value in enumerate(fields)))
    image[at : at + len(packed)] = packed
    return bytes(image)
