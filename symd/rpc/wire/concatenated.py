"""Answers to the parts of a batch as answers to the whole."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from symd.model.answers import Answers, Candidate, Locations, TextSection
from symd.model.locations import concat
from symd.rpc.wire.columns import check_count


def concatenated(parts: Sequence[Answers]) -> Answers:
    """Answers to the parts of a batch, in order, as answers to the whole."""
    if len(parts) == 1:
        return parts[0]
    whole = AnswersBuilder(sum(map(len, parts)))
    for part in parts:
        whole.add(part)
    return whole.answers()


class AnswersBuilder:
    """Answers to a batch of ``count`` queries whose parts are added in order, as they come. Tables of locations that are not the
    same are put one after another, so a location that several have is there several times."""

    def __init__(self, count: int) -> None:
        self._location = np.empty(count, np.uint32)
        self._section = np.empty(count, np.uint32)
        self._offset = np.empty(count, np.uint64)
        self._filled = 0
        self._tables: dict[int, tuple[int, Locations]] = {}
        self._table_end = 0
        self._sections: dict[TextSection, int] = {}
        self._candidates: dict[int, tuple[Candidate, ...]] = {}

    def add(self, part: Answers) -> None:
        """The answers to the next queries."""
        rows = slice(self._filled, self._filled + len(part))
        np.add(part.location, np.uint32(self._start_of(part.locations)), out=self._location[rows])
        numbers = [self._sections.setdefault(section, len(self._sections) + 1) for section in part.text_sections]
        same = numbers == list(range(1, len(numbers) + 1))
        self._section[rows] = part.text_section if same else np.array([0, *numbers], np.uint32)[part.text_section]
        self._offset[rows] = part.offset
        for query, candidates in part.candidates.items():
            self._candidates[rows.start + query] = candidates
        self._filled = rows.stop

    def answers(self) -> Answers:
        """All that were added. Raises ``Malformed`` where that are fewer than ``count``."""
        check_count(self._filled, len(self._location))
        tables = [table for _, table in self._tables.values()]
        locations = tables[0] if len(tables) == 1 else concat(tables)[0]
        columns = self._location, self._section, self._offset
        return Answers(*columns, locations, list(self._sections), self._candidates)

    def _start_of(self, table: Locations) -> int:
        """The number that entry 0 of the table has among all entries."""
        known = self._tables.get(id(table))
        if known is not None:
            return known[0]
        start = self._table_end
        self._tables[id(table)] = start, table
        self._table_end += len(table)
        return start
