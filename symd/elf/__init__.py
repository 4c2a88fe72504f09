"""ELF as GPU compilers write it: the reader, symbols, notes, compressed sections, and a writer. ``constants`` has the
numbers under their own names."""

from symd.elf.constants import MAGIC
from symd.elf.notes import DebugLink, Note, debug_link, notes_of
from symd.elf.reader import (
    Elf,
    Header,
    SectionHeader,
    Segment,
    image_size,
    kind,
    parse,
    parse_header,
    section_headers,
    section_names,
)
from symd.elf.strings import string_at
from symd.elf.symbols import Symbol, symbol_names

__all__ = (
    "MAGIC",
    "DebugLink",
    "Elf",
    "Header",
    "Note",
    "SectionHeader",
    "Segment",
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
    "symbol_names",
)
