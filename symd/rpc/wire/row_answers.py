"""A handful of answers that came as rows, as a batch of answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from symd.model.answers import Answer, Answers, Candidate, Frame, Locations, TextSection
from symd.model.columns import U32, U64
from symd.model.identities import ObjectPath


class RowAnswers(Answers):
    """A handful of answers that came as rows. Most who ask one question want its answer: columns are made for who
    asks for columns."""

    __slots__ = ("_answers", "_columns")
    _answers: Sequence[Answer]
    _columns: Answers

    def __init__(self, answers: Sequence[Answer]) -> None:
        object.__setattr__(self, "_answers", answers)

    def __len__(self) -> int:
        return len(self._answers)

    def __getitem__(self, at: Any) -> Any:
        return self._answers[at]

    def __iter__(self) -> Iterator[Answer]:
        return iter(self._answers)

    def __reduce__(self) -> tuple[type[RowAnswers], tuple[Sequence[Answer]]]:
        return RowAnswers, (self._answers,)

    @property
    def columns(self) -> Answers:
        if not hasattr(self, "_columns"):
            object.__setattr__(self, "_columns", as_columns(self._answers))
        return self._columns

    @property
    def location(self) -> U32:
        return self.columns.location

    @property
    def text_section(self) -> U32:
        return self.columns.text_section

    @property
    def offset(self) -> U64:
        return self.columns.offset

    @property
    def locations(self) -> Locations:
        return self.columns.locations

    @property
    def text_sections(self) -> Sequence[TextSection]:
        return self.columns.text_sections

    @property
    def candidates(self) -> Mapping[int, tuple[Candidate, ...]]:
        return self.columns.candidates


def as_columns(answers: Sequence[Answer]) -> Answers:
    """The same answers; a location that several have is there several times. Made for few: it works one by one."""
    table = _Table()
    sections: dict[TextSection, int] = {}
    location = [table.add(answer) for answer in answers]
    section = [
        sections.setdefault(_text_section(answer), len(sections) + 1) if answer.address is not None else 0
        for answer in answers
    ]
    offset = [answer.section_offset or 0 for answer in answers]
    candidates = {number: answer.candidates for number, answer in enumerate(answers) if answer.candidates}
    columns = np.array(location, np.uint32), np.array(section, np.uint32), np.array(offset, np.uint64)
    return Answers(*columns, table.locations(), list(sections), candidates)


def _text_section(answer: Answer) -> TextSection:
    start = (answer.address or 0) - (answer.section_offset or 0)
    return TextSection(answer.path or ObjectPath(""), answer.section, answer.section_index or 0, start)


class _Table:
    """Locations while they are gathered: a row holds the columns of ``Locations`` in their order."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, ...]] = [(0,) * 10]
        self._strings: dict[str, int] = {"": 0}

    def add(self, answer: Answer) -> int:
        """The number of the answer's location; those around it come before it."""
        reason, kernel = int(answer.reason), self._string(answer.kernel)
        if not answer.frames:
            return self._add((reason, kernel, 0, 0, 0, 0, 0, 0, 0, 0))
        number = 0
        for frame in reversed(answer.frames):
            number = self._add((reason, kernel, *self._frame(frame), number))
        return number

    def _frame(self, frame: Frame) -> tuple[int, ...]:
        names = self._string(frame.function), self._string(frame.linkage_name), self._string(frame.file)
        return (*names, frame.line, frame.column, int(frame.inlined), frame.start_line)

    def _add(self, row: tuple[int, ...]) -> int:
        self._rows.append(row)
        return len(self._rows) - 1

    def _string(self, text: str | None) -> int:
        return self._strings.setdefault(text or "", len(self._strings))

    def locations(self) -> Locations:
        reason, kernel, function, linkage, file, line, column, inlined, start_line, parent = np.array(
            self._rows, np.uint32
        ).T
        strings = list(self._strings)
        bits = inlined.astype(np.uint8)
        columns = reason.astype(np.uint8), kernel, function, linkage, file, line, column, bits, parent
        return Locations(*columns, strings, start_line=start_line)
