"""Interned strings: places of NUL-terminated strings in sections, as numbers, become indexes into one list of names."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from symd.debuginfo.dwarf.columns import Sections
from symd.debuginfo.dwarf.gather import Positions
from symd.model import U32, U64

_SECTIONS = ("", ".debug_info", ".debug_str", ".debug_line_str")
_SECTION_BITS = 60
_OFFSET = np.uint64((1 << _SECTION_BITS) - 1)
NO_STRING = np.uint64(0)


def place(section: str, offset: U64) -> U64:
    """The number that stands for the strings at ``offset`` of a section."""
    return np.minimum(offset, _OFFSET) | np.uint64(_SECTIONS.index(section) << _SECTION_BITS)


class Names:
    """A growing list of distinct strings; number 0 is ""."""

    def __init__(self, known: Iterable[str] = ("",)) -> None:
        self._numbers: dict[str, int] = {name: number for number, name in enumerate(known)}

    def all(self) -> tuple[str, ...]:
        return tuple(self._numbers)

    def intern(self, sections: Sections, places: U64) -> tuple[U32, int]:
        """The number of the string at each place, and how many distinct places have no string (their number is 0).

        A string that is not UTF-8 keeps its readable part.
        """
        distinct, where = _distinct(places)
        edges = np.searchsorted(distinct, np.arange(1, len(_SECTIONS) + 1, dtype=np.uint64) << np.uint64(_SECTION_BITS))
        known = self._numbers
        numbers = [0] * int(edges[0])
        missing = 0
        for name, first, last in zip(_SECTIONS[1:], edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            texts = _texts(sections.get(name, b""), (distinct[first:last] & _OFFSET).astype(np.int64))
            missing += texts.count(None)
            numbers += [0 if text is None else known.setdefault(text, len(known)) for text in texts]
        return np.array(numbers, np.uint32)[where], missing


def _texts(data: bytes, at: Positions) -> list[str | None]:
    """The NUL-terminated strings at ascending offsets; None where there is none."""
    stops = [data.find(b"\0", offset) for offset in at.tolist()]
    return [
        data[start:stop].decode("utf-8", "replace") if stop >= 0 else None
        for start, stop in zip(at.tolist(), stops, strict=True)
    ]


def _distinct(places: U64) -> tuple[U64, NDArray[np.intp]]:
    distinct, where = np.unique(places, return_inverse=True)
    return distinct, where.reshape(-1)
