"""ELF as GPU compilers write it: the reader, symbols, notes, compressed sections, and a writer. ``constants`` has the
numbers under their own names."""

from symd.formats.elf.constants import MAGIC
from symd.formats.elf.contents import DebugLink, Note, Symbol, debug_link, notes_of, string_at
from symd.formats.elf.reader import (
    Elf,
    ElfSegment,
    Header,
    SectionHeader,
    image_size,
    kind,
    parse,
    parse_header,
    section_headers,
    section_names,
)

__all__ = (
    "MAGIC",
    "DebugLink",
    "Elf",
    "ElfSegment",
    "Header",
    "Note",
    "SectionHeader",
    "Symbol",
    "debug_link",
    "image_size",
    "kind",
    "notes_of",
    "parse",
    "parse_header",
    "section_headers",
    "section_names",
    "string_at",
)
