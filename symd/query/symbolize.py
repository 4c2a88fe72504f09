"""Which frames are at these addresses? Queries are resolved to (text section, offset), then all are one search and one
gather; every query has its own reason."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from symd.errors import ObjectNotFound
from symd.index import Index
from symd.index.format import Column
from symd.model import U64, Answers, ByAddress, ByKernel, BySection, Candidate, Query, Reason

MAX_CANDIDATES = 64
"""So many candidates an ambiguous answer names."""


def symbolize(index: Index, queries: Sequence[Query], path: str | None = None) -> Answers:
    """Answers in the order of ``queries``. Raises ObjectNotFound when there is no code object at ``path``."""
    _check_object(index, path)
    batch = _Batch(index, path, len(queries))
    for kind, numbers in _by_target(queries).items():
        values = np.array([_value(queries[number]) for number in numbers], np.uint64)
        batch.resolve(kind, np.array(numbers, np.int64), values)
    return batch.answers()


def symbolize_column(
    index: Index, values: U64, *, kernel: str | None = None, section: str | int | None = None, path: str | None = None
) -> Answers:
    """The same for a column: kernel offsets, section offsets, or object addresses when neither is given."""
    _check_object(index, path)
    batch = _Batch(index, path, len(values))
    batch.resolve(_Target(kernel, section), np.arange(len(values)), values)
    return batch.answers()


_Key = tuple[str | None, str | int | None]


def _Target(kernel: str | None, section: str | int | None) -> _Key:  # noqa: N802 - the constructor of an alias
    return kernel, section


def _by_target(queries: Sequence[Query]) -> dict[_Key, list[int]]:
    groups: dict[_Key, list[int]] = {}
    for number, query in enumerate(queries):
        groups.setdefault(_target(query), []).append(number)
    return groups


def _target(query: Query) -> _Key:
    if isinstance(query, ByKernel):
        return query.kernel, None
    return (None, query.section) if isinstance(query, BySection) else (None, None)


def _value(query: Query) -> int:
    return query.address if isinstance(query, ByAddress) else query.offset


def _check_object(index: Index, path: str | None) -> None:
    if path is not None and path not in index.objects:
        raise ObjectNotFound(
            f"there is no code object {path!r}", hint="symd info FILE lists them", metadata={"object": path}
        )


class _Batch:
    """Columns of a batch while its queries are resolved."""

    def __init__(self, index: Index, path: str | None, size: int) -> None:
        self.index = index
        self.path = path
        self.place = np.zeros(size, np.int64)
        self.offset = np.zeros(size, np.uint64)
        self.reason = np.zeros(size, np.uint32)
        self.candidates: dict[int, tuple[Candidate, ...]] = {}

    def resolve(self, target: _Key, numbers: Column, values: U64) -> None:
        kernel, section = target
        if kernel is not None:
            self._in_kernel(kernel, numbers, values)
        elif section is not None:
            self._in_section(section, numbers, values)
        else:
            self._at_address(numbers, values)

    def _at_address(self, numbers: Column, values: U64) -> None:
        count, place, offset = self.index.address_map(self.path).resolve(values)
        self.place[numbers] = place
        self.offset[numbers] = offset
        self.reason[numbers] = np.choose(np.minimum(count, 2), [Reason.OUTSIDE_TEXT, 0, Reason.AMBIGUOUS])
        for slot in np.flatnonzero(count > 1).tolist():
            self._several(int(numbers[slot]), self._holding(int(values[slot])))

    def _holding(self, address: int) -> list[tuple[int, int]]:
        """(place, offset) of every place that holds the address."""
        columns = self.index.columns
        places = self.index.chosen_places(self.path)
        start = columns["place_address"].astype(np.uint64)[places]
        size = columns["place_size"].astype(np.uint64)[places]
        held = (start <= np.uint64(address)) & (np.uint64(address) - start < size)
        return [(int(place), address - int(first)) for place, first in zip(places[held], start[held], strict=True)]

    def _several(self, number: int, where: list[tuple[int, int]]) -> None:
        self.candidates[number] = tuple(self.index.candidate(place, offset) for place, offset in where[:MAX_CANDIDATES])

    def _in_kernel(self, name: str, numbers: Column, values: U64) -> None:
        allowed = set(self.index.chosen_places(self.path).tolist())
        entries = [entry for entry in self.index.kernels.get(name, ()) if entry.place in allowed]
        starts = [(entry.place, entry.offset) for entry in entries]
        self._relative(starts, numbers, values, Reason.UNKNOWN_KERNEL)

    def _in_section(self, section: str | int, numbers: Column, values: U64) -> None:
        places = self.index.places
        chosen = self.index.chosen_places(self.path).tolist()
        starts = [
            (place, 0)
            for place in chosen
            if section == (places[place].section_index if isinstance(section, int) else places[place].section)
        ]
        self._relative(starts, numbers, values, Reason.OUTSIDE_TEXT)

    def _relative(self, starts: list[tuple[int, int]], numbers: Column, values: U64, missing: Reason) -> None:
        if len(starts) != 1:
            self.reason[numbers] = Reason.AMBIGUOUS if starts else missing
            for slot in range(len(numbers) if starts else 0):
                inside = [
                    (place, at + int(values[slot])) for place, at in starts if self._fits(place, at, values[slot])
                ]
                self._several(int(numbers[slot]), inside)
            return
        place, at = starts[0]
        size = np.uint64(self.index.columns["place_size"][place])
        in_text = (values < size) & (values + np.uint64(at) < size)
        self.place[numbers] = place
        self.offset[numbers] = values + np.uint64(at)
        self.reason[numbers] = np.where(in_text, 0, Reason.OUTSIDE_TEXT)

    def _fits(self, place: int, at: int, value: np.uint64) -> bool:
        return at + int(value) < int(self.index.columns["place_size"][place])

    def answers(self) -> Answers:
        """One search and one gather for all that have a place; the reason's own location for the rest."""
        located = self.reason == 0
        location = self.reason.copy()
        location[located] = self.index.locate(self.place[located], self.offset[located])
        place = np.where(located, self.place + 1, 0).astype(np.uint32)
        offset = np.where(located, self.offset, np.uint64(0))
        return Answers(location, place, offset, self.index.locations, self.index.places, self.candidates)
