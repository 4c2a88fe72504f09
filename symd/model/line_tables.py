"""Whole line tables, which are shown rather than searched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from symd.model.answers import TextSection
from symd.model.columns import U8, U32, U64
from symd.model.identities import ObjectPath


class LineLevel(StrEnum):
    """Which lines a line table speaks of: those of the source, or those of the PTX that it was compiled through."""

    SOURCE = "source"
    PTX = "ptx"


@dataclass(frozen=True, slots=True)
class LineTable:
    """The decoded line table of one code object, in table order: equally long columns.

    ``text_section`` counts from zero, as every row lies in a section: row i is in ``text_sections[text_section[i]]``, at
    address ``text_sections[text_section[i]].address + offset[i]`` (in ``Answers`` the column of the same name counts from
    one). ``kernel``, ``function`` and ``file`` index ``strings`` (entry 0: absent); ``flags`` are RowFlag bits. ``text``,
    which only the PTX level has, indexes ``strings`` too: the line itself.
    """

    path: ObjectPath
    target: str | None
    text_section: U32
    offset: U64
    kernel: U32
    function: U32
    file: U32
    line: U32
    column: U32
    flags: U8
    text_sections: Sequence[TextSection]
    strings: Sequence[str]
    text: U32 | None = None

    def __len__(self) -> int:
        return len(self.offset)
