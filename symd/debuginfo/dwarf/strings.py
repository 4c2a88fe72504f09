"""Interned strings: places of NUL-terminated strings in sections, as numbers, become indexes into one list of names."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from symd.debuginfo.dwarf.columns import Sections
from symd.errors import LimitExceeded
from symd.model import U32, U64

_SECTIONS = ("", ".debug_info", ".debug_str", ".debug_line_str")
_SECTION_BITS = 60
_OFFSET = np.uint64((1 << _SECTION_BITS) - 1)
_FACTOR = 16
_BUDGET = 1 << 20
NO_STRING = np.uint64(0)


def place(section: str, offset: U64) -> U64:
    """The number that stands for the strings at ``offset`` of a section."""
    return np.minimum(offset, _OFFSET) | np.uint64(_SECTIONS.index(section) << _SECTION_BITS)


class StringReader:
    """Reads NUL-terminated strings out of sections. Strings may share their ends; where together they are many times
    as long as their sections, LimitExceeded is raised."""

    def __init__(self, sections: Sections) -> None:
        self._sections = sections
        self._last: dict[str, int] = {}
        self._budget = _BUDGET

    def at(self, section: str, offset: int) -> bytes | None:
        """The string at ``offset``; None where the section has none."""
        found = self.all_at(section, [offset])
        return found[0]

    def all_at(self, section: str, offsets: list[int]) -> list[bytes | None]:
        """The string at each offset."""
        data = self._sections.get(section, b"")
        last = self._last.get(section)
        if last is None:
            last = self._last[section] = data.rfind(b"\0")
            self._budget += _FACTOR * len(data)
        budget = self._budget
        find = data.find
        found: list[bytes | None] = []
        for start in offsets:
            if start > last:
                found.append(None)
                continue
            stop = find(b"\0", start)
            budget -= stop - start
            if budget < 0:
                raise LimitExceeded("strings overlap without end", where=section)
            found.append(data[start:stop])
        self._budget = budget
        return found


class Names:
    """A growing list of distinct strings; number 0 is ""."""

    def __init__(self, known: Iterable[str] = ("",)) -> None:
        self._numbers: dict[str, int] = {name: number for number, name in enumerate(known)}

    def all(self) -> tuple[str, ...]:
        return tuple(self._numbers)

    def intern(self, strings: StringReader, places: U64) -> tuple[U32, int]:
        """The number of the string at each place, and how many distinct places have no string (their number is 0).

        A string that is not UTF-8 keeps its readable part.
        """
        distinct, where = _distinct(places)
        edges = np.searchsorted(distinct, np.arange(1, len(_SECTIONS) + 1, dtype=np.uint64) << np.uint64(_SECTION_BITS))
        known = self._numbers
        numbers = [0] * int(edges[0])
        missing = 0
        for name, first, last in zip(_SECTIONS[1:], edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            texts = strings.all_at(name, (distinct[first:last] & _OFFSET).tolist())
            missing += texts.count(None)
            numbers += [
                0 if text is None else known.setdefault(text.decode("utf-8", "replace"), len(known)) for text in texts
            ]
        return np.array(numbers, np.uint32)[where], missing


def _distinct(places: U64) -> tuple[U64, NDArray[np.intp]]:
    distinct, where = np.unique(places, return_inverse=True)
    return distinct, where.reshape(-1)
