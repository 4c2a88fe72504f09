"""Device addresses to places in the code that was loaded."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from symd.cores.stopped import CodeIdentity
from symd.model.code import CodeObject
from symd.model.cores import CoreImage, CorePlace

_NESTED = 16
"""Functions that begin before a place and may all hold it."""


class LoadedText(NamedTuple):
    """A text section as loaded: device addresses from ``start`` to ``end``, of section ``section_index`` of image number
    ``image``; ``functions`` are (offset, size, name), by offset."""

    start: int
    end: int
    image: int
    section_index: int
    functions: Sequence[tuple[int, int, str]]


class LoadedImage(NamedTuple):
    """A code object that was loaded: how answers name it, where its text is, and what its code is known by (None: the dump
    has no code of it that could be compared)."""

    image: CoreImage
    texts: tuple[LoadedText, ...] = ()
    identity: CodeIdentity | None = None


class LoadedCode:
    """All text of one device's address space."""

    def __init__(self, texts: Iterable[LoadedText]) -> None:
        self._texts = sorted(texts)
        self._starts = [text.start for text in self._texts]

    def place(self, address: int) -> CorePlace | None:
        """Where an address is; None in no code that is known. Of texts that overlap, the one that begins last counts."""
        at = bisect_right(self._starts, address) - 1
        if at < 0 or address >= self._texts[at].end:
            return None
        text = self._texts[at]
        return _place(text, address - text.start)


def _place(text: LoadedText, offset: int) -> CorePlace:
    after = bisect_right(text.functions, offset, key=lambda each: each[0])
    for start, size, name in reversed(text.functions[max(after - _NESTED, 0) : after]):
        if offset < start + size:
            return CorePlace(text.image, text.section_index, offset, name, offset - start)
    return CorePlace(text.image, text.section_index, offset, "", offset)


def functions_of(code: CodeObject, section: int) -> list[tuple[int, int, str]]:
    """(offset, size, name) of a section's functions, by offset."""
    return sorted((each.offset, each.size, each.name) for each in code.functions if each.section_index == section)
