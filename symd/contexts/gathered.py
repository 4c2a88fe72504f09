"""Answers of several modules as answers to one batch: of each table only what its answers point to is taken over."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from symd.model.answers import Answers, Candidate, Locations, TextSection
from symd.model.locations import concat, of_reasons, subset


class Gathered:
    """A batch of ``size`` answers, at first all in no text and for no reason. ``location`` may be set to Reason
    numbers: the table begins with these."""

    def __init__(self, size: int) -> None:
        self.location = np.zeros(size, np.uint32)
        self._text_section = np.zeros(size, np.uint32)
        self._offset = np.zeros(size, np.uint64)
        self._tables: list[Locations] = [of_reasons()]
        self._text_sections: list[TextSection] = []
        self._candidates: dict[int, tuple[Candidate, ...]] = {}

    def add(self, numbers: NDArray[np.int64], answers: Answers) -> None:
        """Put one module's answers in where ``numbers`` says."""
        part, renumbered = subset(answers.locations, answers.location)
        self.location[numbers] = sum(map(len, self._tables)) + renumbered[answers.location]
        self._tables.append(part)
        self._add_text_sections(numbers, answers)
        for query, candidates in answers.candidates.items():
            self._candidates[int(numbers[query])] = candidates

    def answers(self) -> Answers:
        """The batch."""
        table, _ = concat(self._tables)
        return Answers(self.location, self._text_section, self._offset, table, self._text_sections, self._candidates)

    def _add_text_sections(self, numbers: NDArray[np.int64], answers: Answers) -> None:
        used = np.unique(answers.text_section)
        used = used[used != 0]
        if len(used):
            place = len(self._text_sections) + 1 + np.searchsorted(used, answers.text_section)
            self._text_section[numbers] = np.where(answers.text_section != 0, place, 0)
            self._offset[numbers] = answers.offset
            self._text_sections += [answers.text_sections[number - 1] for number in used.tolist()]
