"""Note records, and the link to a file with the debug data.

Source: System V ABI, chapter 5, "Note Section". Names and descriptors are padded to 4 bytes, in 64-bit images too. GDB's manual, "Separate
Debug Files": the file's name, padded to 4 bytes, and the CRC-32 of its content."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from symd.errors import Malformed
from symd.model.code import Section
from symd.model.named_tuples import NamedTuple


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
    """What .gnu_debuglink says, without folders; None where there is no such section, or nothing in it, or the debug data is here."""
    link = None
    for section in sections:
        if section.name.startswith((".debug_", ".zdebug_")):
            return None
        if section.name == ".gnu_debuglink":
            name = section.data.partition(b"\0")[0]
            whole = 0 < len(name) <= len(section.data) - 5
            link = DebugLink(name.rpartition(b"/")[2], int.from_bytes(section.data[-4:], "little")) if whole else None
    return link


def notes_of(section: Section) -> list[Note]:
    """The notes of one section. Raises Malformed where one leaves it."""
    return [*notes_in(section.data, section.name)]


def notes_in(data: bytes, where: str) -> Iterator[Note]:
    """The notes of one section's or segment's content. Raises Malformed where one leaves it."""
    at = 0
    while at + 12 <= len(data):
        name_size, size, kind = struct.unpack_from("<III", data, at)
        start = at + 12 + (name_size + 3 & ~3)
        if start + size > len(data):
            raise Malformed(f"the note at byte {at} ends past the section", where=where)
        owner = data[at + 12 : at + 12 + name_size].split(b"\0")[0].decode("utf-8", "replace")
        yield Note(owner, kind, data[start : start + size])
        at = start + (size + 3 & ~3)
