"""The lines of many answers as columns of pieces, joined in batches when they are written. Answers share locations, and
locations share all but a position, so each text is made once, and most of the work is done on columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import repeat
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.model.answers import Answers, Locations, Reason
from symd.model.columns import I64, U8, U32, U64, distinct

Pieces = NDArray[np.object_]
"""Pieces, each ``bytes``."""
_DIGITS = 4
"""Digits of a number that are looked up together."""
_MOST_DIGITS = 21
"""Fewer than these has every number of 64 bits."""


class Shared(NamedTuple):
    """A piece of each answer: ``texts[number]``."""

    texts: Pieces
    number: I64

    def part(self, start: int, stop: int) -> Pieces:
        """The pieces of some answers."""
        found: Pieces = self.texts[self.number[start:stop]]
        return found


Column = Shared | Sequence[bytes]
"""A piece of each answer."""


class RenderedAnswers:
    """What is written for each answer of a batch: its piece of each of ``columns``; of those that ``instead`` has, by
    number, that."""

    def __init__(self, columns: Sequence[Column], count: int, instead: Mapping[int, bytes] | None = None) -> None:
        self._columns, self._count = columns, count
        self._instead = instead or {}

    def __len__(self) -> int:
        return self._count

    def text(self, start: int, stop: int) -> bytes:
        """What is written for some answers."""
        return b"".join(self._pieces(start, min(stop, self._count)))

    def each(self) -> list[bytes]:
        """What is written for every answer, by itself."""
        pieces, width = self._pieces(0, self._count), len(self._columns)
        return [b"".join(pieces[at : at + width]) for at in range(0, len(pieces), width)]

    def _pieces(self, start: int, stop: int) -> list[bytes]:
        """Row by row; a list takes a column of references in less time than an array does."""
        width = len(self._columns)
        pieces = [b""] * (width * (stop - start))
        for number, column in enumerate(self._columns):
            some = column.part(start, stop).tolist() if isinstance(column, Shared) else column[start:stop]
            pieces[number::width] = some
        instead, every = self._instead, range(start, stop)
        for number in instead if len(instead) < len(every) else every:
            if number in every and number in instead:
                at = width * (number - start)
                pieces[at : at + width] = [instead[number], *[b""] * (width - 1)]
        return pieces


def encoded(texts: Iterable[str]) -> list[bytes]:
    """The bytes of texts as standard output writes them: UTF-8, and "\\xHH" for what is not text."""
    every = list(texts)
    try:
        return list(map(str.encode, every))
    except UnicodeEncodeError:  # of file names that are no text
        return [text.encode("utf-8", "backslashreplace") for text in every]


def pieces_of(pieces: Sequence[bytes]) -> Pieces:
    """Pieces as a column that is gathered from."""
    found = np.empty(len(pieces), np.object_)
    found[:] = pieces
    return found


def side_by_side(*parts: Pieces | bytes) -> Pieces:
    """Columns, and what is between them, joined piece by piece: added column by column each piece would be copied
    as often as there are columns. Raises ValueError where there is no column, or they have different lengths."""
    [count] = {len(each) for each in parts if not isinstance(each, bytes)}
    columns = [repeat(each, count) if isinstance(each, bytes) else each.tolist() for each in parts]
    return pieces_of(list(map(b"".join, zip(*columns, strict=True))))


def decimals(columns: Sequence[U64], between: Sequence[bytes]) -> Pieces:
    """For each row its numbers in decimal, the first of ``between`` behind the first of them, and so on."""
    widths = [_digit_counts(column) for column in columns]
    found = np.empty(len(columns[0]), np.object_)
    for alike in _alike(widths):
        counts = [width.item(alike[0]) for width in widths]
        characters = np.empty((len(alike), sum(counts) + sum(map(len, between))), np.uint8)
        at = 0
        for column, count, text in zip(columns, counts, between, strict=True):
            characters[:, at : at + count] = _digits(column[alike], count)
            at += count + len(text)
            characters[:, at - len(text) : at] = np.frombuffer(text, np.uint8)
        found[alike] = characters.view(f"S{at}").ravel()
    return found


def _alike(columns: Sequence[U8]) -> Iterator[I64]:
    """The rows with the same entries, for each such entries that there are."""
    key = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        key = key * _MOST_DIGITS + column
    for each in np.flatnonzero(np.bincount(key)):
        yield np.flatnonzero(key == each)


def _digit_counts(numbers: U64) -> U8:
    counts, most = np.ones(len(numbers), np.uint8), int(numbers.max(initial=0))
    power = 10
    while power <= most:
        counts += numbers >= np.uint64(power)
        power *= 10
    return counts


def _digits(numbers: U64, count: int) -> U8:
    """The last digits of each number as characters, so many, a row a number."""
    groups = -(-count // _DIGITS)
    found = np.empty((len(numbers), groups), np.uint32)
    for group in reversed(range(groups)):
        left = numbers // np.uint64(10**_DIGITS)
        found[:, group] = _digit_groups()[numbers - left * np.uint64(10**_DIGITS)]
        numbers = left
    return found.view(np.uint8)[:, groups * _DIGITS - count :]


@cache
def _digit_groups() -> U32:
    """Numbers of ``_DIGITS`` digits as characters, four bytes side by side."""
    numbers = np.arange(10**_DIGITS)
    digits = [numbers // 10**place % 10 + ord("0") for place in reversed(range(_DIGITS))]
    return np.stack(digits, axis=1).astype(np.uint8).view(np.uint32).ravel()


Names = Callable[[Iterable[str]], Mapping[str, str]]
"""What gives the readable names of those linkage names that have one."""
KEPT_BYTES = 1 << 26
"""Bytes of text, roughly, that are kept from one batch to the next."""
_FEW_FRAMES = 4
"""Most calls are no deeper in each other."""
_ENTRIES_A_VALUE = 8
"""A table of so many entries is better than to sort."""
_IS_UNUSUAL = np.isin(np.arange(256), (Reason.AMBIGUOUS, Reason.UNKNOWN_KERNEL, Reason.UNKNOWN_MODULE))
_REASONS = {int(reason): reason for reason in Reason}


def unusual(answers: Answers) -> list[int]:
    """The numbers of the answers of which their location does not say all: those with candidates, and those whose query
    names what does not exist, or several things."""
    named = np.flatnonzero(_IS_UNUSUAL[answers.locations.reason[answers.location]]).tolist()
    return sorted({*named, *answers.candidates})


class WrittenStrings:
    """Strings by number, as ``written`` writes several that are not empty; b"" where there is none."""

    def __init__(self, strings: Sequence[str], written: Callable[[Sequence[str]], Iterable[str]]) -> None:
        self._strings, self._written = strings, written
        self._known = np.zeros(len(strings), np.bool_)
        self._pieces = np.full(len(strings), b"", np.object_)
        self.text_bytes = 0

    def several(self, numbers: NDArray[Any]) -> Pieces:
        """The written strings with these numbers."""
        missing = distinct(numbers[~self._known[numbers]])
        if len(missing):
            self._known[missing], missing = True, missing[missing != 0]
            texts = [self._strings[number] for number in missing.tolist()]
            written = encoded(self._written([*filter(None, texts)]))
            if len(written) < len(texts):
                missing = missing[np.fromiter(map(bool, texts), np.bool_, len(texts))]
            self.text_bytes += sum(map(len, written))
            self._pieces[missing] = pieces_of(written)
        found: Pieces = self._pieces[numbers]
        return found


class WrittenLocations(ABC):
    """The locations of one table. ``names``: functions are called by what it says of their linkage names, if
    anything."""

    places_need_files: ClassVar[bool]
    """Whether the position of a frame without a file is left out."""

    def __init__(self, locations: Locations, names: Names | None = None) -> None:
        self.locations = locations
        self._names = names
        self._readable: dict[int, bytes] = {}
        """The names that functions are called by instead of the string with this number, as they are written."""
        self._forget()

    def _forget(self) -> None:
        self.strings = WrittenStrings(self.locations.strings, self.several)
        count = len(self.locations)
        self._frame, self._has_frame = np.empty(count, np.object_), np.zeros(count, np.bool_)
        """The frame of each location that is around others, as a caller; and whether it was written yet."""
        self._callers, self._has_callers = np.empty(count, np.object_), np.zeros(count, np.bool_)
        """The text of each location with all frames around it."""
        self._callers[:1], self._has_callers[:1] = b"", True
        self._text_bytes = 0

    @abstractmethod
    def string(self, text: str) -> str:
        """How a name is written."""

    def several(self, texts: Sequence[str]) -> Iterable[str]:
        """How names are written."""
        return map(self.string, texts)

    @abstractmethod
    def before(self, reason: Reason) -> str:
        """What is written before the frames."""

    @abstractmethod
    def beginnings(self, functions: Pieces, linkage_names: Pieces, files: Pieces, start_lines: U64) -> Pieces:
        """What is written of frames before their positions; the names as ``string`` writes them, b"" where there is
        none. ``start_lines`` are the lines where the functions are declared, 0 where that is not known."""

    @abstractmethod
    def positions(self, lines: U64, columns: U64) -> Pieces:
        """Lines and columns."""

    @abstractmethod
    def ending(self, reason: Reason, inlined: bool | None) -> str:
        """What is written of the innermost frame behind its position; ``inlined`` is None where there are no frames."""

    @abstractmethod
    def around_caller(self, inlined: bool) -> tuple[str, str]:
        """What is written before and behind the beginning and the position of a frame that the one before is inlined
        into."""

    @abstractmethod
    def end(self) -> str:
        """What is written behind the frames."""

    @abstractmethod
    def no_frames(self, kernel: str | None) -> str:
        """What is written between ``before`` and ``end`` of a location without frames."""

    def pieces(self, numbers: U32) -> list[Shared]:
        """What is written for the locations with these numbers: before the position of the innermost frame, the
        position, and all that is written behind it."""
        if self._text_bytes + self.strings.text_bytes > KEPT_BYTES:
            self._forget()
        self._learn_names(numbers)
        table = self.locations
        beginnings, positions = self._frames(numbers)
        reason, framed = table.reason[numbers], (table.function[numbers] != 0) | (table.file[numbers] != 0)
        kernel, parent = np.where(framed, 0, table.kernel[numbers]), np.where(framed, table.parent[numbers], 0)
        before, of = numbered(reason, kernel, framed)
        openings = encoded(
            self.before(_REASONS[reason]) + ("" if has_frame else self.no_frames(self._string(number)))
            for reason, number, has_frame in zip(
                reason[of].tolist(), kernel[of].tolist(), framed[of].tolist(), strict=True
            )
        )
        behind = self._behind(reason, framed, table.inlined[numbers], parent)
        opened, of = numbered(before, beginnings.number)
        texts = side_by_side(pieces_of(openings)[before[of]], beginnings.texts[beginnings.number[of]])
        return [Shared(texts, opened), positions, behind]

    def _behind(
        self, reason: NDArray[Any], framed: NDArray[Any], inlined: NDArray[Any], parent: NDArray[Any]
    ) -> Shared:
        """What is written behind the position of locations like these: with frames or without, of which the innermost
        is inlined or not."""
        ending, of = numbered(reason, framed, inlined)
        endings = encoded(
            self.ending(_REASONS[reason], bool(inlined) if has_frame else None)
            for reason, has_frame, inlined in zip(
                reason[of].tolist(), framed[of].tolist(), inlined[of].tolist(), strict=True
            )
        )
        behind, of = numbered(ending, parent)
        callers = self._callers_of(parent[of])
        return Shared(side_by_side(pieces_of(endings)[ending[of]], callers, self.end().encode()), behind)

    def _frames(self, numbers: U32 | I64) -> tuple[Shared, Shared]:
        """What is written of the innermost frames of these locations before the position, and the position; "" where
        there is none."""
        table = self.locations
        start_lines = table.start_lines
        beginning, first = numbered(
            table.function[numbers], table.linkage_name[numbers], table.file[numbers], start_lines[numbers]
        )
        first = numbers[first].astype(np.int64)
        names, files = self._names_of(first), self.strings.several(table.file[first])
        is_frame = (table.function[first] != 0) | (table.file[first] != 0)
        linkage_names, starts = self.strings.several(table.linkage_name[first]), start_lines[first].astype(np.uint64)
        texts = self.beginnings(names, linkage_names, files, starts)
        texts[~is_frame] = b""
        has_position = (is_frame & (files != b"") if self.places_need_files else is_frame)[beginning]
        position, first = numbered(
            has_position, table.line[numbers] * has_position, table.column[numbers] * has_position
        )
        positions, written = np.full(len(first), b"", np.object_), has_position[first]
        first = numbers[first[written]].astype(np.int64)
        positions[written] = self.positions(table.line[first].astype(np.uint64), table.column[first].astype(np.uint64))
        return Shared(texts, beginning), Shared(positions, position)

    def _names_of(self, numbers: I64) -> Pieces:
        """What the functions of these locations are called."""
        function, linkage_name = self.locations.function[numbers], self.locations.linkage_name[numbers]
        found, readable = self.strings.several(function), self._readable
        if readable:
            known = map(readable.get, np.where(linkage_name != 0, linkage_name, function).tolist())
            found = pieces_of([name or text for name, text in zip(known, found.tolist(), strict=True)])
        return found

    def _callers_of(self, parents: U32) -> Pieces:
        """For each of these locations its frames, each as a caller of the one before; of location 0 there are none."""
        missing = distinct(parents[~self._has_callers[parents]]).astype(np.int64)
        if len(missing):
            self._learn_frames(missing)
            self._callers[missing], self._has_callers[missing] = self._joined(missing), True
            self._text_bytes += sum(map(len, self._callers[missing].tolist()))
        found: Pieces = self._callers[parents]
        return found

    def _joined(self, numbers: I64) -> Pieces:
        """The frames of some locations and those around them: the first few added column by column, of which each is
        copied for the next, and those of deeper locations joined one by one."""
        frame, parent = self._frame, self.locations.parent
        found, at = frame[numbers], parent[numbers]
        for _ in range(_FEW_FRAMES):
            inside = np.flatnonzero(at)
            found[inside] += frame[at[inside]]
            at = parent[at]
        for number in np.flatnonzero(at).tolist():
            chain, around = [found[number]], at.item(number)
            while around:
                chain.append(frame[around])
                around = parent.item(around)
            found[number] = b"".join(chain)
        return found

    def _learn_frames(self, left: I64) -> None:
        """Write the frames of these locations and those around them that are not written yet."""
        parent, levels = self.locations.parent, list[I64]()
        while len(left := distinct(left[(left > 0) & ~self._has_frame[left]])):
            levels.append(left)
            left = parent[left].astype(np.int64)
        if not levels:
            return
        every = distinct(np.concatenate(levels))
        inlined = (self.locations.inlined[every] != 0).astype(np.int64)
        front, back = zip(*map(self.around_caller, (False, True)), strict=True)
        columns = [_shared(front, inlined), *self._frames(every), _shared(back, inlined)]
        texts = side_by_side(*(each.part(0, len(every)) for each in columns))
        self._text_bytes += sum(map(len, texts.tolist()))
        self._frame[every], self._has_frame[every] = texts, True

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
        texts = {number: text for number in sorted(found) if (text := self._string(number))}
        readable = self._names(texts.values())
        known = {number: readable[text] for number, text in texts.items() if readable.get(text)}
        self._readable.update(zip(known, encoded(map(self.string, known.values())), strict=True))


def numbered(*columns: NDArray[Any]) -> tuple[I64, I64]:
    """(the group of each row, the number of a row of each group): rows with equal entries, which are no less than 0,
    are one group."""
    rows = len(columns[0])
    if not rows:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    group, count = np.zeros(rows, np.int64), 1
    for column in columns:
        values, size = column.astype(np.int64), int(column.max()) + 1
        if count * size > rows * _ENTRIES_A_VALUE:
            (group, count), (values, size) = _dense(group, count), _dense(values, size)
        group *= size
        group += values
        count *= size
    group, count = _dense(group, count)
    sample = np.zeros(count, np.int64)
    sample[group] = np.arange(rows)
    return group, sample


def _dense(values: I64, limit: int) -> tuple[I64, int]:
    """``values``, which are below ``limit``, renumbered from 0 on without gaps, and how many distinct ones there
    are; equal ones stay equal."""
    if limit > _ENTRIES_A_VALUE * len(values):
        found, number = np.unique(values, return_inverse=True)
        return number, len(found)
    there = np.zeros(limit, np.bool_)
    there[values] = True
    number = np.cumsum(there, dtype=np.int32)
    return (number[values] - 1).astype(np.int64), int(number[-1])


def _shared(texts: Iterable[str], numbers: I64) -> Shared:
    return Shared(pieces_of(encoded(texts)), numbers)
