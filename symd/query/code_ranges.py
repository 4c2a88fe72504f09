"""How far does an answer hold? The bytes of the row of the line table that covers the place, as far as its function has
them, and for each frame the bytes of its function, or of its inlined call, and the file in which the function is
declared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from symd.errors import LimitExceeded
from symd.index import Index
from symd.model.addresses import SectionOffset, SectionRange
from symd.model.answers import Answer, Answers, CodeRanges, FrameCode
from symd.model.columns import I64, U64
from symd.model.debug_info import RowFlag
from symd.model.reasons import Reason
from symd.model.waiting import check_wanted

RANGED_ANSWERS = 4096
"""Answers of one batch that are told with ranges: each is worked out by itself."""


def check_ranged(count: int) -> None:
    """Raises LimitExceeded for a batch of more answers than are told with ranges."""
    if count > RANGED_ANSWERS:
        raise LimitExceeded(
            f"ranges are wanted for {count} addresses, at most {RANGED_ANSWERS} are told with them",
            hint="ask for fewer at a time, or without ranges",
            metadata={"limit": "ranged_answers", "value": str(RANGED_ANSWERS)},
        )


def ranged(index: Index, answers: Answers) -> Answers:
    """The answers, which lie in the text sections of the index, with ranges. Raises LimitExceeded."""
    check_ranged(len(answers))
    finder, found = CodeFinder(index), dict[int, CodeRanges]()
    for number, answer in enumerate(answers):
        check_wanted()
        if answer.section_offset is not None:
            found[number] = finder.around(int(answers.text_section[number]) - 1, answer)
    return replace(answers, ranges=found)


class CodeFinder:
    """Finds ranges around places of an index. What several places have in common is worked out once."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._pieces: dict[tuple[int, int], tuple[U64, NDArray[np.intp], NDArray[np.intp], int] | None] = {}
        self._code: dict[tuple[int, ...], FrameCode] = {}
        self._rows: dict[int, tuple[U64, U64]] = {}
        self._edges: dict[int, I64] = {}

    def ranged(self, answer: Answer) -> Answer:
        """The answer with ranges, if it is a place in text."""
        if answer.path is None or answer.section_index is None:
            return answer
        section = self._index.section_numbers[answer.path, answer.section_index]
        return answer._replace(ranges=self.around(section, answer))

    def around(self, section: int, answer: Answer) -> CodeRanges:
        """The ranges of an answer in the text section of this number."""
        offset = answer.section_offset or 0
        derived, position = self._index.derived, self._index.bases[section] + offset
        (owner,) = derived.owners_between(position, position + 1)[1].tolist()
        owners = derived.owners_around(owner)[: len(answer.frames)]
        frames = [self._frame(section, each, owners[-1]) for each in owners]
        return CodeRanges(None if answer.reason == Reason.GAP else self._row(section, offset), tuple(frames))

    def _row(self, section: int, offset: int) -> SectionRange | None:
        """The bytes of the last row that covers a place, cut where functions begin and end: a compiler that ends no
        sequence behind a function leaves its last row to reach over the padding to the next one."""
        starts, ends = self._rows_in(section)
        numbers = np.flatnonzero((starts <= offset) & (ends > offset))
        if not len(numbers):
            return None
        edges = self._edges_in(section)
        at = int(np.searchsorted(edges, offset, side="right"))
        start, end = int(starts[numbers[-1]]), int(ends[numbers[-1]])
        return self._range(section, max([start, *edges[:at][-1:].tolist()]), min([end, *edges[at : at + 1].tolist()]))

    def _edges_in(self, section: int) -> I64:
        """The section offsets at which functions begin or end, in order."""
        if section not in self._edges:
            functions = self._index.functions
            here = (functions.section == section + 1) & (functions.size > 0)
            begins = functions.offset[here].astype(np.int64)
            self._edges[section] = np.union1d(begins, begins + functions.size[here].astype(np.int64))
        return self._edges[section]

    def _rows_in(self, section: int) -> tuple[U64, U64]:
        """Where each row of the line table that lies in a section begins and ends, in the table's order. The last row
        of a table is none: nothing ends it."""
        if section not in self._rows:
            index = self._index
            number = index.columns.section_object.item(section)
            end = int(index.columns.object_rows[: number + 1].sum(dtype=np.int64))
            own = slice(end - index.columns.object_rows.item(number), end)
            at, here = index.rows.offset[own].astype(np.uint64), index.rows.section[own] == section
            goes_on = (index.rows.flags[own] & RowFlag.END_SEQUENCE) == 0
            numbers = np.flatnonzero(here[:-1] & here[1:] & goes_on[:-1])
            self._rows[section] = at[numbers], at[numbers + 1]
        return self._rows[section]

    def _frame(self, section: int, owner: int, outermost: int) -> FrameCode:
        """The code of a frame's owner, which is in the function of another owner, or is it."""
        known = self._code.get((section, owner, outermost))
        if known is None:
            columns = self._index.columns
            declared = self._index.strings[columns.owner_start_file.item(owner)] or None
            known = FrameCode(self._code_of(section, owner, outermost), declared)
            self._code[section, owner, outermost] = known
        return known

    def _code_of(self, section: int, owner: int, outermost: int) -> tuple[SectionRange, ...]:
        pieces = self._pieces_of(section, outermost) if outermost else None
        if pieces is None:
            return ()
        begins, owners, which, stop = pieces
        own = {owner}
        if owner == outermost:
            own.update(self._names_of(outermost))
        around = self._index.derived.around
        inside, at = np.zeros(len(owners), np.bool_), owners
        while at.any():  # what is around an owner comes before it
            for each in own:
                inside |= at == each
            at = around[at].astype(np.intp)
        held = np.concatenate([[False], inside[which], [False]])
        edges = np.flatnonzero(held[1:] != held[:-1])
        positions = np.append(begins, np.uint64(stop))[edges].astype(np.int64) - self._index.bases[section]
        return tuple(self._range(section, start, end) for start, end in positions.reshape(-1, 2).tolist())

    def _pieces_of(self, section: int, outermost: int) -> tuple[U64, NDArray[np.intp], NDArray[np.intp], int] | None:
        """The pieces of a function in a section: (where each begins, the distinct owners of its pieces, of each piece
        which of them, where the last one ends); None where it is not known how far the function reaches."""
        asked = section, outermost
        if asked not in self._pieces:
            self._pieces[asked] = None
            functions = self._index.functions
            rows = self._rows_of(outermost)
            rows = rows[(functions.section[rows] == section + 1) & (functions.size[rows] > 0)]
            if len(rows):
                row = rows[np.argmax(functions.size[rows])]
                start = self._index.bases[section] + functions.offset.item(row)
                stop = min(
                    start + functions.size.item(row),
                    self._index.bases[section] + self._index.section_size(section),
                )
                begins, owner = self._index.derived.owners_between(start, stop)
                owners, which = np.unique(owner, return_inverse=True)
                self._pieces[asked] = begins, owners.astype(np.intp), which, stop
        return self._pieces[asked]

    def _rows_of(self, outermost: int) -> NDArray[np.intp]:
        """The numbers of the functions that an owner is, by their debug data or by their symbols."""
        functions = self._index.functions
        return np.flatnonzero((functions.owner == outermost) | (functions.symbol == outermost))

    def _names_of(self, outermost: int) -> list[int]:
        """The owners that the same function is: where scopes reach, and where its symbol alone does."""
        functions, rows = self._index.functions, self._rows_of(outermost)
        return [each for each in [*functions.owner[rows].tolist(), *functions.symbol[rows].tolist()] if each]

    def _range(self, section: int, start: int, end: int) -> SectionRange:
        number = self._index.sections[section].section_index
        return SectionRange(number, SectionOffset(start), SectionOffset(end))
