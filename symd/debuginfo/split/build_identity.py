"""Which code a debug file belongs to. AMD's code objects have no build ID, so the debug file carries a note with the SHA-256 of
the code: of each executable section its address and size, as little-endian u64, and its content. One that objcopy's
``--only-keep-debug`` made has neither that note nor code; it has all other notes, which describe each kernel."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable

from symd.errors import HashMismatch
from symd.formats.elf.constants import SHT_NOBITS, SHT_NOTE
from symd.formats.elf.writer import OutputSection
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
    if found:
        same = found.data[-_DIGEST_SIZE:] == _digest(code.sections)
    elif all(section.type == SHT_NOBITS for section in debug.sections if section.executable):
        same = _layout(code) == _layout(debug) and _have_the_same_notes(code, debug)
    else:
        same = _code(code) == _code(debug)
    if not same:
        raise HashMismatch("the debug data belongs to another code object: the code differs", hint=hint)


def _digest(sections: Iterable[Section]) -> bytes:
    digest = hashlib.sha256()
    for section in sections:
        if section.executable:
            digest.update(struct.pack("<QQ", section.address, len(section.data)) + section.data)
    return digest.digest()


def _layout(code: CodeObject) -> list[tuple[str, int, int]]:
    return [(one.name, one.address, one.size) for one in code.sections if one.executable]


def _have_the_same_notes(code: CodeObject, debug: CodeObject) -> bool:
    ours, theirs = _notes(code), _notes(debug)
    shared = ours.keys() & theirs.keys()
    return bool(shared) and all(ours[name] == theirs[name] for name in shared)


def _notes(code: CodeObject) -> dict[str, bytes]:
    return {one.name: one.data for one in code.sections if one.type == SHT_NOTE}


def _code(code: CodeObject) -> list[tuple[str, int, int, bytes]]:
    return [(one.name, one.address, one.size, one.data) for one in code.sections if one.executable]
