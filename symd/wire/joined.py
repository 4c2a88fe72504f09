"""Answers to the pieces of a batch put together, piece by piece as they come."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from symd.model.answers import Answers, Candidate, Locations, TextSection
from symd.model.locations import concat


def join(pieces: Sequence[Answers]) -> Answers:
    """Answers to the pieces of a batch as answers to the whole."""
    if len(pieces) == 1:
        return pieces[0]
    whole = Joined(sum(map(len, pieces)))
    for piece in pieces:
        whole.add(piece)
    return whole.answers()


class Joined:
    """Answers to a batch of ``count`` queries whose pieces are added in order. Tables of locations that are not the
    same are put one after another, so a location that several have is there several times."""

    def __init__(self, count: int) -> None:
        self._location = np.empty(count, np.uint32)
        self._place = np.empty(count, np.uint32)
        self._offset = np.empty(count, np.uint64)
        self._filled = 0
        self._tables: dict[int, tuple[int, Locations]] = {}
        self._table_end = 0
        self._places: dict[TextSection, int] = {}
        self._candidates: dict[int, tuple[Candidate, ...]] = {}

    def add(self, piece: Answers) -> None:
        """The answers to the next queries."""
        part = slice(self._filled, self._filled + len(piece))
        np.add(piece.location, np.uint32(self._start_of(piece.locations)), out=self._location[part])
        numbers = [self._places.setdefault(place, len(self._places) + 1) for place in piece.text_sections]
        same = numbers == list(range(1, len(numbers) + 1))
        self._place[part] = piece.text_section if same else np.array([0, *numbers], np.uint32)[piece.text_section]
        self._offset[part] = piece.offset
        for query, candidates in piece.candidates.items():
            self._candidates[part.start + query] = candidates
        self._filled = part.stop

    def answers(self) -> Answers:
        """All that were added."""
        part = slice(self._filled)
        tables = [table for _, table in self._tables.values()]
        locations = tables[0] if len(tables) == 1 else concat(tables)[0]
        columns = self._location[part], self._place[part], self._offset[part]
        return Answers(*columns, locations, list(self._places), self._candidates)

    def _start_of(self, table: Locations) -> int:
        """Where the table stands behind those that came before."""
        known = self._tables.get(id(table))
        if known is not None:
            return known[0]
        start = self._table_end
        self._tables[id(table)] = start, table
        self._table_end += len(table)
        return start
