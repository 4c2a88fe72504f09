"""Whole tables that are shown rather than searched: lines, instructions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from symd.model import U8, U32, U64, Place


class LineLevel(StrEnum):
    """Which lines a line table speaks of: those of the source, or those of the PTX that it was compiled through."""

    SOURCE = "source"
    PTX = "ptx"


@dataclass(frozen=True, slots=True)
class LineTable:
    """The decoded line table of one code object, in table order: equally long columns.

    ``place`` indexes ``places``; ``kernel``, ``function`` and ``file`` index ``strings`` (entry 0: absent); ``flags``
    are RowFlag bits; an address is ``places[place].address + offset``. ``text``, which only the PTX level has, indexes
    ``strings`` too: the line itself.
    """

    object: str
    target: str | None
    place: U32
    offset: U64
    kernel: U32
    function: U32
    file: U32
    line: U32
    column: U32
    flags: U8
    places: Sequence[Place]
    strings: Sequence[str]
    text: U32 | None = None

    def __len__(self) -> int:
        return len(self.offset)


@dataclass(frozen=True, slots=True)
class Instructions:
    """Machine code as text: equally long columns, in the order of the code, each instruction once.

    ``section`` holds ELF section indexes, ``offset`` bytes from that section's start, ``size`` bytes. ``disassembler``
    names what wrote the text.
    """

    section: U32
    offset: U64
    size: U32
    text: Sequence[str]
    disassembler: str

    def __len__(self) -> int:
        return len(self.offset)
