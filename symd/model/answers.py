"""Answers: frames, the reason of each answer, and whole batches as columns; and operations on their location tables:
the part that some answers need, and several tables as one. In every table entry 0 is "nothing known", parent 0 means
none, and string 0 is "absent"; all functions keep that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from symd.model.addresses import ObjectAddress, SectionOffset
from symd.model.answer_rows import Answer as Answer  # noqa: PLC0414 - with the batches of them
from symd.model.answer_rows import Candidate as Candidate  # noqa: PLC0414 - likewise
from symd.model.answer_rows import CodeRanges as CodeRanges  # noqa: PLC0414 - likewise
from symd.model.answer_rows import Frame as Frame  # noqa: PLC0414 - likewise
from symd.model.answer_rows import FrameCode as FrameCode  # noqa: PLC0414 - likewise
from symd.model.answer_rows import rows
from symd.model.columns import U8, U32, U64, no_numbers
from symd.model.data_frames import answer_columns
from symd.model.identities import ObjectPath
from symd.model.reasons import Reason as Reason  # noqa: PLC0414 - as everybody knows it
from symd.model.texts import counted

if TYPE_CHECKING:
    from symd.model.data_frames import ArrowTable, DataFrame


class TextSection(NamedTuple):
    """A section of a code object, as answers name it."""

    path: ObjectPath
    section: str | None
    section_index: int
    address: int


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False, repr=False)
class Locations:
    """Distinct locations as equally long columns; entry 0 is "nothing known".

    A location is an innermost frame with a ``parent`` location (0 = outermost). ``kernel``, ``function``,
    ``linkage_name`` and ``file`` index ``strings``, whose entry 0 is "absent". ``reason`` holds Reason numbers and
    matters only where an answer points; ``inlined`` says that the frame was inlined into its parent. ``shared`` says
    that further answers will point into this very table. ``start_line`` is the line where the function is declared;
    None: of none is it known.
    """

    reason: U8
    kernel: U32
    function: U32
    linkage_name: U32
    file: U32
    line: U32
    column: U32
    inlined: U8
    parent: U32
    strings: Sequence[str]
    shared: bool = field(default=False, kw_only=True)
    start_line: U32 | None = field(default=None, kw_only=True)

    def __len__(self) -> int:
        return len(self.reason)

    def __repr__(self) -> str:
        return f"<Locations: {len(self):,}, {counted(len(self.strings), 'string')}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it as a table of its own, with the strings as a plain list: they may be views of a file or of a
        message."""
        apart = ("strings", "shared", "start_line")
        columns = [getattr(self, each.name) for each in fields(self) if each.name not in apart]
        return _table_of, ((*columns, [*self.strings]), self.start_line)

    @property
    def start_lines(self) -> U32:
        """``start_line``, 0 where it is not known."""
        return no_numbers(len(self)) if self.start_line is None else self.start_line

    def frames(self, number: int) -> tuple[Frame, ...]:
        """The frames of one location, innermost first. A text that several have is one object: it is as long as whoever
        made the module liked."""
        frames, texts, at = [], dict[int, str | None](), number
        while at:
            frames.append(self._frame(at, texts))
            at = int(self.parent[at])
        return tuple(frames)

    def _frame(self, at: int, texts: dict[int, str | None]) -> Frame:
        numbers = int(self.function[at]), int(self.linkage_name[at]), int(self.file[at])
        for each in numbers:
            if each not in texts:
                texts[each] = self.strings[each] or None
        function, linkage_name, file = (texts[each] for each in numbers)
        return Frame(
            function,
            linkage_name,
            file,
            int(self.line[at]),
            int(self.column[at]),
            bool(self.inlined[at]),
            0 if self.start_line is None else int(self.start_line[at]),
        )


def _table_of(columns: tuple[Any, ...], start_line: U32 | None) -> Locations:
    return Locations(*columns, start_line=start_line)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Answers(Sequence[Answer]):
    """Answers to a batch as columns, one entry a query, in the order asked; indexing makes one ``Answer``.

    ``location`` indexes ``locations``. ``text_section`` counts from one: answer i lies in
    ``text_sections[text_section[i] - 1]``, or names no place in any text where ``text_section[i]`` is 0 (in
    ``LineTable`` the column of the same name counts from zero). ``offset`` counts from that section's start.
    ``candidates`` maps the number of an ambiguous query, or of one whose function or section does not exist, to its
    candidates; not all have some where a batch has many (``symd.query.symbolize``). ``ranges`` maps the number of a
    query that names a place in text to its ``CodeRanges``, where they were asked for.
    """

    location: U32
    text_section: U32
    offset: U64
    locations: Locations
    text_sections: Sequence[TextSection]
    candidates: Mapping[int, tuple[Candidate, ...]] = field(default_factory=dict)
    ranges: Mapping[int, CodeRanges] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.location)

    def with_locations(
        self, locations: Locations, *, location: U32 | None = None, ranges: Mapping[int, CodeRanges] | None = None
    ) -> Answers:
        """The answers about another table of locations, to whose entries those of ``location`` lead where they are
        others, with other ``ranges`` where these are given. A daemon's few answers are of another class, and become
        columns."""
        return Answers(
            self.location if location is None else location,
            self.text_section,
            self.offset,
            locations,
            self.text_sections,
            self.candidates,
            self.ranges if ranges is None else ranges,
        )

    @overload
    def __getitem__(self, at: int) -> Answer: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Answer]: ...
    def __getitem__(self, at: int | slice) -> Answer | Sequence[Answer]:
        if isinstance(at, slice):
            return list(rows(self, range(len(self))[at]))
        number = int(self.location[at])
        reason = Reason(int(self.locations.reason[number]))
        kernel = self.locations.strings[self.locations.kernel[number]] or None
        frames = self.locations.frames(number) if self.locations.function[number] or self.locations.file[number] else ()
        candidates = self.candidates.get(at % len(self), ())
        if not self.text_section[at]:
            return Answer(reason, kernel=kernel, frames=frames, candidates=candidates)
        text = self.text_sections[int(self.text_section[at]) - 1]
        offset = SectionOffset(int(self.offset[at]))
        address = ObjectAddress(text.address + offset)
        place = text.path, kernel, text.section, text.section_index, offset, address
        return Answer(reason, *place, frames, candidates, self.ranges.get(at % len(self)))

    def to_pandas(self, *, frames: bool = False) -> DataFrame:
        """A table with an answer a row, or with ``frames`` a frame a row (``symd.model.data_frames``). Raises
        ToolMissing where pandas is not installed."""
        return answer_columns(self, frames=frames).to_pandas()

    def to_arrow(self, *, frames: bool = False) -> ArrowTable:
        """The answers as a table of Apache Arrow: a row for each answer, or with ``frames`` for each frame
        (``symd.model.data_frames``). Raises ToolMissing where pyarrow is not installed."""
        return answer_columns(self, frames=frames).to_arrow()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self):,}{self.shares()}>"

    def shares(self) -> str:
        """How many have which reason, most first."""
        counts = Counter(self.locations.reason[self.location].tolist())
        return "".join(f", {count:,} {Reason(number).name}" for number, count in counts.most_common())

    def __iter__(self) -> Iterator[Answer]:
        """One after the other; answers of one location share their frames."""
        return rows(self, range(len(self)))


Flags = NDArray[np.bool_]
_MARKED_AT_ONCE = 1 << 15
"""Numbers that are marked at a time, so that what is made on the way stays in the processor's cache."""


def subset(table: Locations, numbers: U32) -> tuple[Locations, U32]:
    """(entry 0, the locations ``numbers`` and all that enclose them, with no other strings than theirs; for each entry
    of ``table`` its number there, 0 for those that are left out). They are in the order of ``table``; but where their
    numbers take fewer bytes for it, ``numbers`` come before what only encloses them.

    ``numbers`` may repeat and need no order: it can be the ``location`` column of a batch, and the second result taken
    at it is that column for the first."""
    own = _marked(table, numbers)
    used = _with_enclosing(table, own)
    kept, renumbered = np.flatnonzero(used), _numbers_among(used)
    if _bytes_of_number(own) < _bytes_of_number(used):
        kept = np.concatenate([np.flatnonzero(own), np.flatnonzero(used & ~own)])
        renumbered[kept] = np.arange(len(kept), dtype=np.uint32)
    texts = [column[kept] for column in (table.kernel, table.function, table.linkage_name, table.file)]
    strings, (kernel, function, linkage_name, file) = _strings_of(table.strings, texts)
    part = Locations(
        reason=table.reason[kept],
        kernel=kernel,
        function=function,
        linkage_name=linkage_name,
        file=file,
        line=table.line[kept],
        column=table.column[kept],
        inlined=table.inlined[kept],
        parent=renumbered[table.parent[kept]],
        strings=strings,
        start_line=None if table.start_line is None else table.start_line[kept],
    )
    return part, renumbered


def used_strings(table: Locations, numbers: U32) -> U32:
    """The numbers of the strings that ``subset`` has."""
    kept = np.flatnonzero(_with_enclosing(table, _marked(table, numbers)))
    used = np.zeros(len(table.strings), np.bool_)
    for column in (table.kernel, table.function, table.linkage_name, table.file):
        used[column[kept]] = True
    return np.flatnonzero(used).astype(np.uint32)


def _bytes_of_number(marked: Flags) -> int:
    """How many bytes a number takes that tells the marked entries apart."""
    return np.min_scalar_type(int(np.count_nonzero(marked)) - 1).itemsize  # entry 0 is marked


def _marked(table: Locations, numbers: U32) -> Flags:
    """For each entry of ``table`` whether it is entry 0 or one of ``numbers``."""
    marked = np.zeros(len(table), np.bool_)
    marked[0] = True
    for start in range(0, len(numbers), _MARKED_AT_ONCE):
        marked[numbers[start : start + _MARKED_AT_ONCE]] = True
    return marked


def _with_enclosing(table: Locations, marked: Flags) -> Flags:
    """For each entry of ``table`` whether it is marked, or encloses one that is."""
    used = marked.copy()
    outer = table.parent[used]
    while len(outer):
        outer = outer[~used[outer]]
        used[outer] = True
        outer = table.parent[outer]
    return used


def concat(tables: Sequence[Locations]) -> tuple[Locations, list[int]]:
    """(the tables one after another, each string once; for each table the number that its entry 0 has there).

    A location that several tables have is there several times, and so is "nothing known"."""
    offsets = [0, *accumulate(map(len, tables))]
    strings: dict[str, int] = {"": 0}
    parts = [
        (table, np.uint32(offset), _interned(strings, table.strings))
        for table, offset in zip(tables, offsets, strict=False)
    ]
    whole = Locations(
        reason=np.concatenate([table.reason for table in tables]),
        kernel=np.concatenate([text[table.kernel] for table, _, text in parts]),
        function=np.concatenate([text[table.function] for table, _, text in parts]),
        linkage_name=np.concatenate([text[table.linkage_name] for table, _, text in parts]),
        file=np.concatenate([text[table.file] for table, _, text in parts]),
        line=np.concatenate([table.line for table in tables]),
        column=np.concatenate([table.column for table in tables]),
        inlined=np.concatenate([table.inlined for table in tables]),
        parent=np.concatenate([_shifted(table.parent, offset) for table, offset, _ in parts]),
        strings=list(strings),
        start_line=np.concatenate([table.start_lines for table in tables]),
    )
    return whole, offsets[:-1]


def of_reasons() -> Locations:
    """A table whose entries carry a reason alone, each under its own number."""
    count = max(Reason) + 1
    nothing, flags = np.zeros(count, np.uint32), np.zeros(count, np.uint8)
    return Locations(
        np.arange(count, dtype=np.uint8), nothing, nothing, nothing, nothing, nothing, nothing, flags, nothing, [""]
    )


def _strings_of(strings: Sequence[str], columns: Sequence[U32]) -> tuple[list[str], list[U32]]:
    """(string 0 and those that ``columns`` number, the columns renumbered)."""
    used = np.zeros(len(strings), np.bool_)
    used[0] = True
    for column in columns:
        used[column] = True
    renumbered = _numbers_among(used)
    return [strings[number] for number in np.flatnonzero(used).tolist()], [renumbered[column] for column in columns]


def _numbers_among(used: Flags) -> U32:
    """For each entry that is used its number among these, 0 for the others."""
    numbers = np.flatnonzero(used)
    renumbered = np.zeros(len(used), np.uint32)
    renumbered[numbers] = np.arange(len(numbers), dtype=np.uint32)
    return renumbered


def _interned(known: dict[str, int], strings: Sequence[str]) -> U32:
    """The numbers of ``strings`` among those that are ``known``; new ones become known."""
    return np.array([known.setdefault(text, len(known)) for text in strings], np.uint32)


def _shifted(parent: U32, by: np.uint32) -> U32:
    """Parents in a table that now begins at ``by``; 0 stays "none"."""
    return np.where(parent, parent + by, np.uint32(0)).astype(np.uint32, copy=False)
