"""An answer with its frames, and the answers of a batch one after the other. What a piece of the batch has in its
columns becomes Python's objects at once, so that little is left to do for each answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from operator import concat, mul
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.model.addresses import ObjectAddress, SectionOffset, SectionRange
from symd.model.columns import U32, U64
from symd.model.frame_text import frame_text
from symd.model.identities import ObjectPath
from symd.model.reasons import Reason
from symd.model.texts import counted

if TYPE_CHECKING:
    from symd.model.answers import Answers, Locations, TextSection

ANSWERS_IN_CACHE, ANSWERS_AT_ONCE = 1 << 11, 1 << 16
"""Answers whose columns are Python's objects at a time: so few that their frames stay in the processor's caches, and
where they have few distinct ones as many as make the work on columns cheap."""
_REPEATED = 2
"""Answers of a piece that have few locations: so many to each."""
KEPT_LOCATIONS = 1 << 15
"""Locations of a table whose frames are kept from one piece to the next."""
KEPT_TAILS = 1 << 16
"""Locations that others were inlined into whose frames are kept from one piece to the next."""
KEPT_TEXTS = 1 << 16
"""Texts that are kept from one piece to the next."""
_ADDRESSES = 1 << 64


class Frame(NamedTuple):
    """One level of a location; ``line`` 0 and ``file`` None mean that nothing is known of the position. ``start_line``
    is the line where the function is declared, 0 where that is not known."""

    function: str | None
    linkage_name: str | None
    file: str | None
    line: int
    column: int
    inlined: bool
    start_line: int = 0

    def __str__(self) -> str:
        """FUNCTION at FILE:LINE:COLUMN, as far as it is known."""
        return frame_text(*self[:5])

    def __repr__(self) -> str:
        linkage = f" [{self.linkage_name}]" if self.linkage_name else ""
        return f"<Frame {self}{linkage}{' (inlined)' if self.inlined else ''}>"


class Candidate(NamedTuple):
    """One of several places that an ambiguous query could mean; or, with ``function``, what a query could mean that
    names a function which does not exist: the name to ask for, which begins at this place. Where the reason is
    OUTSIDE_TEXT the query names a section that does not exist, and this is the first byte of one that does."""

    path: ObjectPath
    section: str | None
    section_index: int
    section_offset: SectionOffset
    kernel: str | None
    function: str | None = None


class FrameCode(NamedTuple):
    """What is known of the code of one frame's function: its bytes, lowest first, of an inlined one those of this call
    (none: not known); and the file in which it is declared, at ``Frame.start_line``."""

    code: tuple[SectionRange, ...] = ()
    declared_file: str | None = None


class CodeRanges(NamedTuple):
    """How far an answer holds: ``row`` are the bytes of the row of the line table that covers the place, None where
    none does; ``frames`` has for each frame of the answer the code of its function."""

    row: SectionRange | None = None
    frames: tuple[FrameCode, ...] = ()


class Answer(NamedTuple):
    """The answer to one query; ``frames`` are innermost first. Where the query names no place in any text,
    ``path``, ``section`` and the rest are None. ``ranges`` are there where they were asked for, of a place in text."""

    reason: Reason
    path: ObjectPath | None = None
    kernel: str | None = None
    section: str | None = None
    section_index: int | None = None
    section_offset: SectionOffset | None = None
    address: ObjectAddress | None = None
    frames: tuple[Frame, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    ranges: CodeRanges | None = None

    @property
    def place(self) -> str:
        """(SECTION)+OFFSET, "" where the query names no place in any text."""
        if self.section_offset is None:
            return ""
        return f"({self.section or f'#{self.section_index}'})+{self.section_offset:#x}"

    def __repr__(self) -> str:
        frames = " inlined into ".join(map(str, self.frames)) or (f"in {self.kernel}" if self.kernel else "no answer")
        alternatives = f", {counted(len(self.candidates), 'candidate')}" if self.candidates else ""
        return f"<Answer {' '.join(filter(None, (self.reason.name, self.place)))}: {frames}{alternatives}>"


Objects = NDArray[np.object_]


def _objects(values: Iterable[Any], count: int) -> Objects:
    return np.fromiter(values, np.object_, count)


_IS_REASON = np.isin(np.arange(256), list(Reason))
_REASONS = _objects((Reason(number) if known else None for number, known in enumerate(_IS_REASON)), 256)


def rows(answers: Answers, every: range) -> Iterator[Answer]:
    """The answers with these numbers. Those of one location share their frames, where they stand near each other and
    many do."""
    return chain.from_iterable(_pieces(answers, every))


def _pieces(answers: Answers, every: range) -> Iterator[Iterator[Answer]]:
    spelled, first, size = _Spelled(answers.locations), 0, ANSWERS_IN_CACHE
    while first < len(every):
        numbers = every[first : first + size]
        yield _piece(answers, numbers, spelled)
        first += size
        size = ANSWERS_AT_ONCE if spelled.is_repeated else ANSWERS_IN_CACHE


def _piece(answers: Answers, numbers: range, spelled: _Spelled) -> Iterator[Answer]:
    part = slice(numbers.start, numbers.stop if numbers.stop >= 0 else None, numbers.step)
    reason, kernel, frames = spelled.columns(answers.location[part])
    path, name, number, offset, address = _places(
        answers.text_sections, answers.text_section[part], answers.offset[part]
    )
    known = answers.candidates
    candidates: Iterable[Any] = [known.get(at, ()) for at in numbers] if known else repeat(())
    ranges: Iterable[Any] = map(answers.ranges.get, numbers) if answers.ranges else repeat(None)
    columns = zip(reason, path, kernel, name, number, offset, address, frames, candidates, ranges, strict=False)
    return map(tuple.__new__, repeat(Answer), columns)


def _places(sections: Sequence[TextSection], number: U32, offset: U64) -> list[Iterable[Any]]:
    """Path, section name, section number, offset and address of each answer; None where ``number`` is 0."""
    lowest = int(number.min())
    if lowest and lowest == int(number.max()):
        return _places_in(sections[lowest - 1], offset)
    paths, names, numbers, addresses = zip(*sections, strict=True) if sections else ((), (), (), ())
    columns: list[Iterable[Any]] = [
        _objects((None, *column), 1 + len(sections))[number].tolist() for column in (paths, names, numbers)
    ]
    if lowest and max(addresses) + int(offset.max()) < _ADDRESSES:
        address = np.array((0, *addresses), np.uint64)[number] + offset
        return [*columns, offset.tolist(), address.tolist()]
    offsets = [at if section else None for section, at in zip(number.tolist(), offset.tolist(), strict=True)]
    starts = (0, *addresses)
    places = zip(number.tolist(), offsets, strict=True)
    return [*columns, offsets, [None if at is None else starts[section] + at for section, at in places]]


def _places_in(section: TextSection, offset: U64) -> list[Iterable[Any]]:
    """The columns of places of answers that lie in one section: path, section name, section number, offset and
    address."""
    path, name, number, start = section
    offsets = offset.tolist()
    if start + int(offset.max()) < _ADDRESSES:
        address = (offset + np.uint64(start)).tolist()
    else:
        address = [start + at for at in offsets]
    return [repeat(path), repeat(name), repeat(number), offsets, address]


class _Spelled:
    """The locations of a table in objects, as pieces of a batch need them. Those of a table that is not large are kept.
    Of a large one answers share what they are made of where many have one location; else each is made when its turn
    comes and forgotten after it, so that Python's collector finds nothing to look at."""

    def __init__(self, table: Locations) -> None:
        self._table = table
        self._texts = _KeptTexts(table.strings)
        self.is_repeated = False
        """Whether the last piece had many answers to each location that was made for it."""
        kept = len(table) if len(table) <= KEPT_LOCATIONS else 0
        self._is_kept = np.zeros(kept, np.bool_)
        self._kept = [np.empty(kept, np.object_) for _ in range(3)]
        self._last = np.empty(0 if kept else len(table), np.uint32)
        self._has_tail = np.zeros(len(table), np.bool_)
        self._tails = np.empty(len(table), np.object_)

    def columns(self, numbers: U32) -> list[Iterable[Any]]:
        """Reason, kernel and frames of each of these locations. One without function and file stands for a reason
        alone."""
        if len(self._is_kept):
            return self._kept_columns(numbers)
        here = np.arange(len(numbers), dtype=np.uint32)
        self._last[numbers] = here
        last = self._last[numbers]
        chosen = last == here
        distinct = int(np.count_nonzero(chosen))
        self.is_repeated = distinct * _REPEATED < len(numbers)
        if not self.is_repeated:
            return self._columns_of(numbers)
        at = (np.cumsum(chosen) - 1)[last]
        return [_objects(each, distinct)[at].tolist() for each in self._columns_of(numbers[chosen])]

    def _kept_columns(self, numbers: U32) -> list[Iterable[Any]]:
        few = np.unique(numbers[~self._is_kept[numbers]])
        for kept, some in zip(self._kept, self._columns_of(few), strict=True):
            kept[few] = _objects(some, len(few))
        self._is_kept[few] = True
        self.is_repeated = len(few) * _REPEATED < len(numbers)
        return [each[numbers].tolist() for each in self._kept]

    def _columns_of(self, numbers: U32) -> list[Iterable[Any]]:
        reason = self._table.reason[numbers]
        if not _IS_REASON[reason].all():
            Reason(reason[~_IS_REASON[reason]][0].item())  # which raises
        return [_REASONS[reason].tolist(), self._texts.of(self._table.kernel[numbers]), self._frames_of(numbers)]

    def _frames_of(self, numbers: U32) -> Iterator[tuple[Frame, ...]]:
        """The frames of each of some locations, made as they are asked for."""
        table = self._table
        frames: Iterator[Any] = map(
            concat, zip(self._innermost(numbers), strict=True), self._tails_of(table.parent[numbers])
        )
        framed = ((table.function[numbers] | table.file[numbers]) != 0) & (numbers != 0)
        return frames if framed.all() else map(mul, frames, framed.tolist())

    def _innermost(self, numbers: U32) -> Iterator[Frame]:
        """The frames of these locations alone."""
        table, texts = self._table, self._texts
        columns = zip(
            texts.of(table.function[numbers]),
            texts.of(table.linkage_name[numbers]),
            texts.of(table.file[numbers]),
            table.line[numbers].tolist(),
            table.column[numbers].tolist(),
            table.inlined[numbers].astype(np.bool_).tolist(),
            table.start_lines[numbers].tolist(),
            strict=True,
        )
        return map(tuple.__new__, repeat(Frame), columns)

    def _tails_of(self, numbers: U32) -> list[tuple[Frame, ...]]:
        """The frames of each of these locations, which others were inlined into: they are shared, and kept. 0 has
        none."""
        has = self._has_tail[numbers]
        if not has.all():
            if np.count_nonzero(self._has_tail) > KEPT_TAILS:
                self._has_tail[:] = has[:] = False
            self._make_tails(numbers[~has])
        tails: list[tuple[Frame, ...]] = self._tails[numbers].tolist()
        return tails

    def _make_tails(self, numbers: U32) -> None:
        """Make the frames of these locations, from the outermost on, since locations call each other."""
        parent, has = self._table.parent, self._has_tail
        self._tails[0], has[0] = (), True
        levels = []
        while len(numbers := np.unique(numbers[~has[numbers]])):
            levels.append(numbers)
            numbers = parent[numbers]
        for level in reversed(levels):
            tails = map(concat, zip(self._innermost(level), strict=True), self._tails[parent[level]].tolist())
            self._tails[level] = _objects(tails, len(level))
            has[level] = True


class _KeptTexts:
    """Strings by number, "" as None. Those that were asked for are kept, so far as they are not many."""

    def __init__(self, strings: Sequence[str]) -> None:
        self._strings = strings
        self._has, self._kept = np.zeros(len(strings), np.bool_), np.empty(len(strings), np.object_)

    def of(self, numbers: U32) -> list[str | None]:
        """The string of each of these numbers."""
        has = self._has[numbers]
        if not has.all():
            if np.count_nonzero(self._has) > KEPT_TEXTS:
                self._has[:] = has[:] = False
            few = np.unique(numbers[~has])
            self._kept[few] = _objects((self._strings[number] or None for number in few.tolist()), len(few))
            self._has[few] = True
        texts: list[str | None] = self._kept[numbers].tolist()
        return texts
