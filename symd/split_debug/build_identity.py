"""Which code a debug file belongs to. AMD's code objects have no build ID, so the debug file carries a note with the SHA-256 of
the code: of each executable section its address and size, as little-endian u64, and its content."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable

from symd.elf.constants import SHT_NOTE
from symd.elf.writer import OutputSection
from symd.errors import HashMismatch
from symd.model.code import CodeObject, Section

SECTION = ".note.symd.code"
_OWNER, _TYPE = b"symd\0\0\0\0", 1
_DIGEST_SIZE = 32


def note(sections: Iterable[Section]) -> OutputSection:
    """The note section for the debug file of an object with these sections."""
    content = struct.pack("<III", 5, _DIGEST_SIZE, _TYPE) + _OWNER + _digest(sections)
    return OutputSection(SECTION, SHT_NOTE, size=len(content), content=content, align=4)


def check(code: CodeObject, debug: CodeObject) -> None:
    """Raises HashMismatch where ``debug``, a debug file or a whole object, is not of the same build as ``code``."""
    hint = "give the debug file that was written with this object"
    if code.target != debug.target:
        raise HashMismatch(f"the debug data is for {debug.target}, the object for {code.target}", hint=hint)
    found = debug.section(SECTION)
    same = found.data[-_DIGEST_SIZE:] == _digest(code.sections) if found else _code(code) == _code(debug)
    if not same:
        raise HashMismatch("the debug data belongs to another code object: the code differs", hint=hint)


def _digest(sections: Iterable[Section]) -> bytes:
    digest = hashlib.sha256()
    for section in sections:
        if section.executable:
            digest.update(struct.pack("<QQ", section.address, len(section.data)) + section.data)
    return digest.digest()


def _code(code: CodeObject) -> list[tuple[str, int, int, bytes]]:
    return [(one.name, one.address, one.size, one.data) for one in code.sections if one.executable]
