"""Archives of objects (``ar``): static libraries with device code, and ocloc's outputs for several devices.

Source: System V ABI, "Archive File"; GNU long names ("//" table) and BSD long names ("#1/")."""

from __future__ import annotations

from typing import NamedTuple

from symd.errors import Malformed, Unsupported
from symd.formats.budget import Budget
from symd.formats.containers.format import Contents, Element

NAME = "archive"
MAGIC = b"!<arch>\n"
THIN = b"!<thin>\n"
DEBIAN = MAGIC + b"debian-binary"
_TABLES = {"", "/", "/SYM64/", "__.SYMDEF", "__.SYMDEF SORTED", "__.SYMDEF_64", "__.SYMDEF_64 SORTED"}
_NAME_BYTES = 4096
"""The most bytes of a member's name that are read: whoever makes an archive says how long its names are."""


class _Member(NamedTuple):
    """A member of an archive, whose content is ``data[start:end]``."""

    name: bytes
    start: int
    end: int


def claims(data: bytes) -> bool:
    """The magic line of a whole or a thin archive; a Debian package (deb(5)) has no objects for members."""
    return data[:8] in (MAGIC, THIN) and data[: len(DEBIAN)] != DEBIAN


def read(element: Element, budget: Budget) -> Contents:
    """An element for every member that is not a table of the archive itself. Members before damage are kept, with a
    note; raises Malformed when that is nothing, Unsupported for thin archives, whose members are files elsewhere."""
    if element.data[:8] == THIN:
        raise Unsupported("a thin archive only names its members", hint="give the members themselves")
    elements: list[Element] = []
    notes: list[str] = []
    long_names, at = b"", 8
    while at < len(element.data):
        try:
            member = _member(element.data, at)
        except Malformed as error:
            if not elements:
                raise
            notes.append(f"left out: the rest of the archive: {error}")
            break
        at = member.end + (member.end & 1)
        if member.name == b"//":
            long_names = element.data[member.start : member.end]
            continue
        name, start = _name(element.data, member, long_names)
        if name not in _TABLES and not _is_padding(name, element.data[start : member.end]):
            budget.count_elements("archive")
            elements.append(Element(name.removesuffix("/").replace("/", "_"), element.data[start : member.end]))
    return Contents(tuple(elements), notes=tuple(notes))


def _is_padding(name: str, content: bytes) -> bool:
    """Whether a member is one of the blanks that ocloc puts between others to align them."""
    return name.startswith("pad_") and not content.strip(b" \0\n")


def _member(data: bytes, at: int) -> _Member:
    """The member whose header of 60 bytes is at ``at``: name (16 bytes), size (10 digits at byte 48), "`" and newline.
    Raises Malformed."""
    head = data[at : at + 60]
    if len(head) < 60 or head[58:60] != b"`\n":
        raise Malformed(f"there is no archive member header at byte {at}")
    digits = head[48:58].strip()
    if not digits.isdigit():
        raise Malformed(f"the size of the archive member at byte {at} is not a number")
    end = at + 60 + int(digits)
    if end > len(data):
        raise Malformed(f"the archive member at byte {at} ends at byte {end}, past the file's {len(data)} bytes")
    return _Member(head[:16].rstrip(b" "), at + 60, end)


def _name(data: bytes, member: _Member, long_names: bytes) -> tuple[str, int]:
    """The name and where the content begins: ``name/`` and ``/offset`` are GNU's ways, ``#1/length`` (the name stands
    in front of the content) is BSD's."""
    name, start = member.name, member.start
    if name[:1] == b"/" and name[1:].isdigit():
        begins = int(name[1:])
        name = long_names[begins : begins + _NAME_BYTES].split(b"\n")[0].rstrip(b"\0") or b"member"
    elif name[:3] == b"#1/" and name[3:].isdigit():
        start = min(start + int(name[3:]), member.end)
        name = data[member.start : min(start, member.start + _NAME_BYTES)].rstrip(b"\0") or b"member"
    return name.decode("utf-8", "backslashreplace"), start
