"""Interned strings: keys, which say where NUL-terminated strings stand in sections, become indexes into one list of
names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from symd.dwarf.constants import Form
from symd.dwarf.sections import DebugSection, DebugSections
from symd.errors import LimitExceeded
from symd.model.columns import U32, U64

IN_INFO, IN_STRINGS, IN_LINE_STRINGS = 1, 2, 3
"""The sections that hold strings, as ``string_key`` numbers them."""
STRING_SECTIONS: dict[int, int] = {Form.DW_FORM_strp: IN_STRINGS, Form.DW_FORM_line_strp: IN_LINE_STRINGS}
"""Where the strings stand that a form names by offset."""
_SECTION_BITS = 60
_OFFSET = np.uint64((1 << _SECTION_BITS) - 1)
_FIRST_KEYS = np.arange(IN_INFO, IN_LINE_STRINGS + 2, dtype=np.uint64) << np.uint64(_SECTION_BITS)
"""The first key of each section, and after the last."""
MAX_EXPANSION = 16
"""Bytes read per byte of the sections of strings, at most."""
_MIN_ALLOWANCE = 1 << 20
"""Bytes that may be read in any case."""
_STRINGS_PER_WANTED_ONE = 8
"""Where at least one of so many strings of a section is wanted, the whole section is split; where fewer are, the end of
each is searched for."""
_BYTES_PER_KEY = 64
"""Keys that lie no farther apart than this on average are found to be different by a mark for every byte between the
first and the last; others by sorting."""
NO_STRING = np.uint64(0)


def string_key(section: int, offset: U64) -> U64:
    """The number that stands for the strings at ``offset`` of a section, such as IN_STRINGS."""
    return np.minimum(offset, _OFFSET) | np.uint64(section << _SECTION_BITS)


class StringReader:
    """Reads NUL-terminated strings out of sections. Strings may share their ends; where together they are many times
    as long as their sections, LimitExceeded is raised."""

    def __init__(self, sections: DebugSections, expansion: int = MAX_EXPANSION) -> None:
        self._expansion = expansion
        self._sections: dict[int, DebugSection] = {
            IN_INFO: sections.info,
            IN_STRINGS: sections.strings,
            IN_LINE_STRINGS: sections.line_strings,
        }
        self._last: dict[int, tuple[bytes, int]] = {}
        self._budget = _MIN_ALLOWANCE

    def at(self, section: int, offset: int) -> bytes | None:
        """The string at ``offset``; None where the section has none."""
        data, last = self._open(section)
        if offset > last:
            return None
        stop = data.find(b"\0", offset)
        self._spend(section, stop - offset)
        return data[offset:stop]

    def texts(self, section: int, offsets: NDArray[np.int64]) -> list[str]:
        """The strings at ascending offsets, up to the first one that has none. A string that is not UTF-8 keeps its
        readable part."""
        data, last = self._open(section)
        offsets = offsets[: np.searchsorted(offsets, last, side="right")]
        if _STRINGS_PER_WANTED_ONE * len(offsets) < data.count(b"\0") or not data.isascii():
            found = (self.at(section, offset) for offset in offsets.tolist())
            return [text.decode("utf-8", "replace") for text in found if text is not None]
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 0)
        which = np.searchsorted(ends, offsets)
        self._spend(section, int((ends[which] - offsets).sum()))
        pieces = data.decode("ascii").split("\0")
        texts = list(map(pieces.__getitem__, which.tolist()))
        before = offsets - np.append(0, ends + 1)[which]
        for number in np.flatnonzero(before).tolist():
            texts[number] = texts[number][int(before[number]) :]
        return texts

    def _open(self, section: int) -> tuple[bytes, int]:
        """A section's bytes and where its last NUL is, or -1."""
        known = self._last.get(section)
        if known is None:
            data = self._sections[section].data
            known = self._last[section] = data, data.rfind(b"\0")
            self._budget += self._expansion * len(data)
        return known

    def _spend(self, section: int, count: int) -> None:
        self._budget -= count
        if self._budget < 0:
            raise LimitExceeded("strings overlap without end", where=self._sections[section].name)


class Names:
    """A growing list of distinct strings; number 0 is ""."""

    def __init__(self, known: Iterable[str] = ("",)) -> None:
        self._numbers: dict[str, int] = {name: number for number, name in enumerate(known)}

    def all(self) -> tuple[str, ...]:
        return tuple(self._numbers)

    def intern(self, strings: StringReader, keys: U64) -> tuple[U32, int]:
        """The number of the string of each key, and how many distinct keys have no string (their number is 0)."""
        distinct, where = distinct_keys(keys)
        numbers = np.zeros(len(distinct), np.uint32)
        missing = 0
        for first, section, offsets in key_places(distinct):
            texts = strings.texts(section, offsets)
            numbers[first : first + len(texts)] = self._add(texts)
            missing += len(offsets) - len(texts)
        return numbers[where], missing

    def _add(self, texts: list[str]) -> U32:
        known = self._numbers
        new = [text for text in dict.fromkeys(texts) if text not in known]
        known.update(zip(new, range(len(known), len(known) + len(new)), strict=True))
        return np.fromiter(map(known.__getitem__, texts), np.uint32, len(texts))


def key_places(keys: U64) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
    """Ascending keys, section by section: the number of the first one, the section, and the offsets in it. Sections without any
    are left out."""
    edges = np.searchsorted(keys, _FIRST_KEYS).tolist()
    for section, (first, last) in enumerate(pairwise(edges), IN_INFO):
        if first < last:
            yield first, section, (keys[first:last] & _OFFSET).astype(np.int64)


def distinct_keys(keys: U64) -> tuple[U64, NDArray[np.intp]]:
    """The keys in order, each once, and the number of each one given."""
    least = keys.min() if len(keys) else NO_STRING
    room = int(keys.max() - least) + 1 if len(keys) else 0
    if room > _BYTES_PER_KEY * len(keys):
        distinct, where = np.unique(keys, return_inverse=True)
        return distinct, where.reshape(-1)
    offset = (keys - least).astype(np.intp)
    there = np.zeros(room, np.bool_)
    there[offset] = True
    number = np.cumsum(there, dtype=np.intp)
    return np.flatnonzero(there).astype(np.uint64) + least, number.take(offset) - 1
