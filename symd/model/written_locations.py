"""Locations as somebody writes them. The answers of a batch share locations, and locations share all but a position: each text is made
once, and most of the work is done on columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.model.answers import Answers, Frame, Locations, Reason
from symd.model.columns import I64, U32, distinct

Names = Callable[[Iterable[str]], Mapping[str, str]]
"""What gives the readable names of those linkage names that have one."""
KEPT_LETTERS = 1 << 26
"""So much text is kept from one batch to the next, about."""
_ENTRIES_A_VALUE = 8
"""A table of so many entries is better than to sort."""
_IS_UNUSUAL = np.isin(np.arange(256), (Reason.AMBIGUOUS, Reason.UNKNOWN_KERNEL, Reason.UNKNOWN_MODULE))
_REASONS = {int(reason): reason for reason in Reason}


def unusual(answers: Answers) -> list[int]:
    """The numbers of the answers of which their location does not say all: those with candidates, and those whose query names what
    does not exist, or several things."""
    named = np.flatnonzero(_IS_UNUSUAL[answers.locations.reason[answers.location]]).tolist()
    return sorted({*named, *answers.candidates})


class Pieces(NamedTuple):
    """For each location what is written before its frames, the innermost frame before its position, the position, and all that is written
    behind it."""

    before: Iterable[str]
    beginning: Iterable[str]
    position: Iterable[str]
    behind: Iterable[str]


class WrittenLocations(ABC):
    """The locations of one table. ``names``: functions are called by what it says of their linkage names, if anything."""

    def __init__(self, locations: Locations, names: Names | None = None) -> None:
        self.locations = locations
        self._names = names
        self._readable: dict[str, str] = {}
        self._forget()

    def _forget(self) -> None:
        self._beginnings: dict[tuple[int, int, int], tuple[str, bool]] = {}
        self._letters = 0

    @abstractmethod
    def before(self, reason: Reason) -> str:
        """What is written before the frames."""

    @abstractmethod
    def beginning(self, frame: Frame) -> tuple[str, bool]:
        """What is written of a frame before its position, and whether that is written; line and column mean nothing."""

    @abstractmethod
    def position(self, line: int, column: int) -> str:
        """Line and column."""

    @abstractmethod
    def ending(self, reason: Reason, inlined: bool | None) -> str:
        """What is written of the innermost frame behind its position; ``inlined`` is None where there are no frames."""

    @abstractmethod
    def caller(self, beginning: str, position: str, inlined: bool) -> str:
        """A frame that the one before is inlined into, of which two pieces are written already."""

    @abstractmethod
    def end(self) -> str:
        """What is written behind the frames."""

    @abstractmethod
    def no_frames(self, kernel: str | None) -> str:
        """What is written between ``before`` and ``end`` of a location without frames."""

    def pieces(self, numbers: U32) -> Pieces:
        """What is written for the locations with these numbers."""
        if self._letters > KEPT_LETTERS:
            self._forget()
        self._learn_names(numbers)
        table = self.locations
        beginnings, positions = self._frames(numbers)
        framed = (table.function[numbers] != 0) | (table.file[numbers] != 0)
        kernel, parent = np.where(framed, 0, table.kernel[numbers]), np.where(framed, table.parent[numbers], 0)
        before, groups = numbered(table.reason[numbers], kernel, framed)
        openings = [
            self.before(_REASONS[reason]) + ("" if has_frame else self.no_frames(self._string(number)))
            for reason, number, has_frame in groups
        ]
        behind, groups = numbered(table.reason[numbers], framed, table.inlined[numbers], parent)
        callers = self._callers({group[-1] for group in groups})
        endings = [
            f"{self.ending(_REASONS[reason], bool(inlined) if has_frame else None)}{callers[parent]}{self.end()}"
            for reason, has_frame, inlined, parent in groups
        ]
        return Pieces(_each(openings, before), beginnings, positions, _each(endings, behind))

    def _frames(self, numbers: U32 | I64) -> tuple[Iterable[str], Iterable[str]]:
        """What is written of the innermost frames of these locations before the position, and the position; "" where there is none."""
        table = self.locations
        beginning, groups = numbered(table.function[numbers], table.linkage_name[numbers], table.file[numbers])
        known = [self._beginning(*group) for group in groups]
        positioned = np.array([has_position for _, has_position in known], np.bool_)[beginning]
        position, places = numbered(positioned, table.line[numbers] * positioned, table.column[numbers] * positioned)
        positions = [self.position(line, column) if has_position else "" for has_position, line, column in places]
        return _each([text for text, _ in known], beginning), _each(positions, position)

    def _callers(self, parents: set[int]) -> dict[int, str]:
        """For each of these locations its frames, each as a caller of the one before; of location 0 there are none."""
        numbers = np.array(sorted(parents - {0}), np.int64)
        used, left = np.zeros(len(self.locations), np.bool_), numbers
        while len(left):
            used[left] = True
            around = self.locations.parent[left]
            left = distinct(around[~used[around] & (around > 0)]).astype(np.int64)
        every = np.flatnonzero(used)
        beginnings, positions = self._frames(every)
        texts = map(self.caller, beginnings, positions, map(bool, self.locations.inlined[every].tolist()))
        written = dict(zip(every.tolist(), zip(texts, self.locations.parent[every].tolist(), strict=True), strict=True))
        found = {0: ""}
        for parent in numbers.tolist():
            chain, at = [], parent
            while at:
                text, at = written[at]
                chain.append(text)
            found[parent] = "".join(chain)
        return found

    def _beginning(self, function: int, linkage_name: int, file: int) -> tuple[str, bool]:
        key = function, linkage_name, file
        known = self._beginnings.get(key)
        if known is None:
            known = "", False
            if function or file:
                name, linkage, path = map(self._string, key)
                readable = self._readable.get(linkage or name or "")
                known = self.beginning(Frame(readable or name, linkage, path, 0, 0, inlined=False))
            self._beginnings[key] = known
            self._letters += len(known[0])
        return known

    def _string(self, number: int) -> str | None:
        return (self.locations.strings[number] or None) if number else None

    def _learn_names(self, numbers: U32) -> None:
        """Ask for the readable names of the functions of these locations, and of those around them, all at once."""
        if self._names is None:
            return
        table, found, left = self.locations, set[int](), distinct(numbers)
        while len(left):
            linkage = table.linkage_name[left]
            found.update(np.where(linkage != 0, linkage, table.function[left]).tolist())
            around = distinct(table.parent[left])
            left = around[around > 0]
        named = (self._string(number) for number in sorted(found))
        self._readable.update(self._names(name for name in named if name))


def numbered(*columns: NDArray[Any]) -> tuple[I64, list[tuple[int, ...]]]:
    """(the group of each row, a row of each group): rows with equal entries, which are no less than 0, are one group."""
    group, count = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        values, size = _dense(column.astype(np.int64))
        group, count = _dense(group * size + values) if size > 1 else (group, count)
    sample = np.zeros(count, np.int64)
    sample[group] = np.arange(len(group))
    if not len(group):
        return group, []
    return group, list(zip(*(column[sample].tolist() for column in columns), strict=True))


def _dense(values: I64) -> tuple[I64, int]:
    """The same with numbers from 0 on, of which none is left out, and how many there are; equal ones stay equal."""
    top = int(values.max(initial=0))
    if top >= _ENTRIES_A_VALUE * len(values):
        found, number = np.unique(values, return_inverse=True)
        return number, len(found)
    there = np.zeros(top + 1, np.bool_)
    there[values] = True
    number = np.cumsum(there)
    return number[values] - 1, int(number[-1])


def _each(texts: Sequence[str], numbers: I64) -> Iterable[str]:
    return map(texts.__getitem__, numbers.tolist())
