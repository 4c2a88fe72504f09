"""Interned strings: places of NUL-terminated strings in sections, as numbers, become indexes into one list of names."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from symd.debuginfo.dwarf.columns import Sections
from symd.model import U32, U64

_SECTIONS = ("", ".debug_info", ".debug_str", ".debug_line_str")
_SECTION_BITS = 60
NO_STRING = np.uint64(0)


def place(section: str, offset: U64) -> U64:
    """The number that stands for the strings at ``offset`` of a section."""
    return (offset & np.uint64((1 << _SECTION_BITS) - 1)) | np.uint64(_SECTIONS.index(section) << _SECTION_BITS)


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
        numbers = np.zeros(len(distinct), np.uint32)
        missing = 0
        offset_mask = (1 << _SECTION_BITS) - 1
        for at, key in enumerate(distinct.tolist()):
            if not key:
                continue
            data = sections.get(_SECTIONS[key >> _SECTION_BITS], b"")
            start = key & offset_mask
            stop = data.find(b"\0", start)
            if stop < 0:
                missing += 1
                continue
            name = data[start:stop].decode("utf-8", "replace")
            numbers[at] = self._numbers.setdefault(name, len(self._numbers))
        return numbers[where], missing


def _distinct(places: U64) -> tuple[U64, NDArray[np.intp]]:
    distinct, where = np.unique(places, return_inverse=True)
    return distinct, where.reshape(-1)
