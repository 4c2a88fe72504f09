"""Answers of several modules as answers to one batch: of each table only what its answers point to is taken over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from symd.model.answers import Answers, Candidate, Locations, Reason, TextSection
from symd.model.columns import U32

TEXTS = ("kernel", "function", "linkage_name", "file")
NUMBERS = ("reason", "line", "column", "inlined")
RESERVED = max(Reason) + 1
"""Locations up to here carry a reason alone, under its own number."""


class Gathered:
    """A batch of ``size`` answers, at first all without a place and for no reason."""

    def __init__(self, size: int) -> None:
        self.location = np.zeros(size, np.uint32)
        self._place = np.zeros(size, np.uint32)
        self._offset = np.zeros(size, np.uint64)
        self._tables: list[dict[str, NDArray[Any]]] = [_reasons()]
        self._count = RESERVED
        self._strings: dict[str, int] = {"": 0}
        self._places: list[TextSection] = []
        self._candidates: dict[int, tuple[Candidate, ...]] = {}

    def add(self, numbers: NDArray[np.int64], answers: Answers) -> None:
        """Put one module's answers in where ``numbers`` says."""
        kept = _with_parents(answers.locations, np.unique(answers.location))
        self.location[numbers] = self._count + np.searchsorted(kept, answers.location)
        self._tables.append(self._renumbered(answers.locations, kept))
        self._count += len(kept)
        self._add_places(numbers, answers)
        for query, candidates in answers.candidates.items():
            self._candidates[int(numbers[query])] = candidates

    def answers(self) -> Answers:
        """The batch."""
        columns: dict[str, Any] = {
            name: np.concatenate([table[name] for table in self._tables]) for name in (*TEXTS, *NUMBERS, "parent")
        }
        table = Locations(**columns, strings=tuple(self._strings))
        return Answers(self.location, self._place, self._offset, table, self._places, self._candidates)

    def _renumbered(self, table: Locations, kept: NDArray[Any]) -> dict[str, NDArray[Any]]:
        columns = {name: getattr(table, name)[kept] for name in NUMBERS}
        for name in TEXTS:
            columns[name] = self._texts(getattr(table, name)[kept], table.strings)
        parents = table.parent[kept]
        inner = self._count + np.searchsorted(kept, parents)
        columns["parent"] = np.where(parents != 0, inner, 0).astype(np.uint32)
        return columns

    def _texts(self, numbers: NDArray[Any], strings: Sequence[str]) -> U32:
        """Numbers of the same strings in this batch."""
        distinct, inverse = np.unique(numbers, return_inverse=True)
        texts = [strings[number] if number else "" for number in distinct.tolist()]
        ours = [self._strings.setdefault(text, len(self._strings)) for text in texts]
        return np.array(ours, np.uint32)[inverse]

    def _add_places(self, numbers: NDArray[np.int64], answers: Answers) -> None:
        used = np.unique(answers.place)
        used = used[used != 0]
        if len(used):
            place = len(self._places) + 1 + np.searchsorted(used, answers.place)
            self._place[numbers] = np.where(answers.place != 0, place, 0)
            self._offset[numbers] = answers.offset
            self._places += [answers.places[number - 1] for number in used.tolist()]


def _with_parents(table: Locations, numbers: NDArray[Any]) -> NDArray[Any]:
    """The locations and all that enclose them, sorted; 0 is never one of those that enclose."""
    kept = layer = numbers
    while len(layer):
        layer = np.setdiff1d(table.parent[layer], kept)
        layer = layer[layer != 0]
        kept = np.union1d(kept, layer)
    return kept


def _reasons() -> dict[str, NDArray[Any]]:
    nothing = np.zeros(RESERVED, np.uint32)
    columns: dict[str, NDArray[Any]] = dict.fromkeys((*TEXTS, *NUMBERS, "parent"), nothing)
    return columns | {"reason": np.arange(RESERVED, dtype=np.uint8), "inlined": np.zeros(RESERVED, np.uint8)}
