"""Answers of several modules as answers to one batch: of each table only what its answers point to is taken over."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from symd.errors import LimitExceeded
from symd.index.format import Strings
from symd.model.answers import Answers, Candidate, Locations, TextSection
from symd.model.locations import concat, of_reasons, subset, used_strings

MAX_TEXTS = 96 << 20
"""Bytes of the names and paths of one batch, as UTF-8, each once a module: whoever made a module says how long they
are, and a context may have many modules."""


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
        self._room = MAX_TEXTS

    def add(self, numbers: NDArray[np.int64], answers: Answers) -> None:
        """Put one module's answers in where ``numbers`` says. Raises ``LimitExceeded`` where their texts have no room."""
        table = answers.locations
        if isinstance(table.strings, Strings) and table.strings.text_bytes > self._room:  # before they are read
            self._check_room(table.strings.sizes(used_strings(table, answers.location)))
        part, renumbered = subset(table, answers.location)
        self._room -= sum(map(_bytes, part.strings))
        self._check_room(0)
        self.location[numbers] = sum(map(len, self._tables)) + renumbered[answers.location]
        self._tables.append(part)
        self._add_text_sections(numbers, answers)
        for query, candidates in answers.candidates.items():
            self._candidates[int(numbers[query])] = candidates

    def answers(self) -> Answers:
        """The batch."""
        table, _ = concat(self._tables)
        return Answers(self.location, self._text_section, self._offset, table, self._text_sections, self._candidates)

    def _check_room(self, size: int) -> None:
        if size > self._room:
            raise LimitExceeded(
                f"the answers have more than {MAX_TEXTS} bytes of names and paths",
                hint="ask for fewer addresses at a time",
                metadata={"limit": "answer_texts", "value": str(MAX_TEXTS)},
            )

    def _add_text_sections(self, numbers: NDArray[np.int64], answers: Answers) -> None:
        used = np.unique(answers.text_section)
        used = used[used != 0]
        if len(used):
            place = len(self._text_sections) + 1 + np.searchsorted(used, answers.text_section)
            self._text_section[numbers] = np.where(answers.text_section != 0, place, 0)
            self._offset[numbers] = answers.offset
            self._text_sections += [answers.text_sections[number - 1] for number in used.tolist()]


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
