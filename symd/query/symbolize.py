"""Which frames are at these addresses? Queries are resolved to (text section, offset), then all are one search and one
gather; every query has its own reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from symd.errors import ObjectNotFound
from symd.index import Index
from symd.index.format import Column
from symd.model.addresses import ByAddress, ByKernel, BySection, Query
from symd.model.answers import Answer, Answers, Candidate, Reason
from symd.model.columns import U64

MAX_CANDIDATES = 64
"""So many candidates an ambiguous answer names."""


def symbolize(index: Index, queries: Sequence[Query], path: str | None = None) -> Answers:
    """Answers in the order of ``queries``. Raises ObjectNotFound when there is no code object at ``path``."""
    _check_object(index, path)
    batch = _Batch(index, path, len(queries))
    for key, numbers in _by_key(queries).items():
        values = np.array([_value(queries[number]) for number in numbers], np.uint64)
        batch.resolve(key, np.array(numbers, np.int64), values)
    return batch.answers()


def symbolize_one(index: Index, query: Query, path: str | None = None) -> Answer:
    """The answer to one query; where it is plain, without making a column."""
    return index.answer(query, path) or symbolize(index, [query], path)[0]


def symbolize_column(
    index: Index, values: U64, *, kernel: str | None = None, section: str | int | None = None, path: str | None = None
) -> Answers:
    """The same for a column: kernel offsets, section offsets, or object addresses when neither is given."""
    _check_object(index, path)
    batch = _Batch(index, path, len(values))
    batch.resolve((kernel, section), slice(None), values)
    return batch.answers()


class Part(NamedTuple):
    """A column of a batch: ``values`` of the queries ``numbers``, as ``symbolize_column`` takes them."""

    numbers: Column
    values: U64
    kernel: str | None = None
    section: str | int | None = None
    path: str | None = None


def symbolize_parts(index: Index, parts: Iterable[Part], size: int) -> Answers:
    """A batch of ``size`` queries of several kinds. Where there is no code object of that path the reason is
    UNKNOWN_KERNEL."""
    batch = _Batch(index, None, size)
    for part in parts:
        if part.path is None or index.has_object(part.path):
            batch.path = part.path
            batch.resolve((part.kernel, part.section), part.numbers, part.values)
        else:
            batch.reason[part.numbers] = Reason.UNKNOWN_KERNEL
    return batch.answers()


_QueryKey = tuple[str | None, str | int | None]
"""The kernel or the section that queries resolved together have in common; neither: they give object addresses."""
_Numbers = Column | slice
"""Which queries of a batch; the whole slice is all of them."""


def _by_key(queries: Sequence[Query]) -> dict[_QueryKey, list[int]]:
    groups: dict[_QueryKey, list[int]] = {}
    for number, query in enumerate(queries):
        groups.setdefault(_key_of(query), []).append(number)
    return groups


def _key_of(query: Query) -> _QueryKey:
    if isinstance(query, ByKernel):
        return query.kernel, None
    return (None, query.section) if isinstance(query, BySection) else (None, None)


def _value(query: Query) -> int:
    return query.address if isinstance(query, ByAddress) else query.offset


def _check_object(index: Index, path: str | None) -> None:
    if path is not None and not index.has_object(path):
        raise ObjectNotFound.at(path)


class _Batch:
    """Columns of a batch while its queries are resolved."""

    def __init__(self, index: Index, path: str | None, size: int) -> None:
        self.index = index
        self.path = path
        self.section = np.zeros(size, np.int32)
        self.offset = np.zeros(size, np.uint64)
        self.reason = np.zeros(size, np.uint8)
        self.candidates: dict[int, tuple[Candidate, ...]] = {}

    def resolve(self, key: _QueryKey, numbers: _Numbers, values: U64) -> None:
        kernel, section = key
        if kernel is not None:
            self._in_kernel(kernel, numbers, values)
        elif section is not None:
            self._in_section(section, numbers, values)
        else:
            self._at_address(numbers, values)

    def _at_address(self, numbers: _Numbers, values: U64) -> None:
        count, text, offset = self.index.address_map(self.path).resolve(values)
        self.section[numbers] = text
        self.offset[numbers] = offset
        plain = count == 1
        if plain.all():
            return
        self.reason[numbers] = np.where(plain, 0, np.where(count, Reason.AMBIGUOUS, Reason.OUTSIDE_TEXT))
        for slot in np.flatnonzero(count > 1).tolist():
            self._several(_number(numbers, slot), self._holding(int(values[slot])))

    def _holding(self, address: int) -> list[tuple[int, int]]:
        """(text section, offset) of every one that holds the address."""
        columns = self.index.columns
        sections = self.index.chosen_sections(self.path)
        start = columns.section_address.astype(np.uint64)[sections]
        size = columns.section_size.astype(np.uint64)[sections]
        held = (start <= np.uint64(address)) & (np.uint64(address) - start < size)
        return [(int(text), address - int(first)) for text, first in zip(sections[held], start[held], strict=True)]

    def _several(self, number: int, where: list[tuple[int, int]]) -> None:
        self.candidates[number] = tuple(self.index.candidate(text, offset) for text, offset in where[:MAX_CANDIDATES])

    def _in_kernel(self, name: str, numbers: _Numbers, values: U64) -> None:
        entries = [entry for entry in self.index.kernels_named(name) if self.index.is_chosen(entry.section, self.path)]
        starts = [(entry.section, entry.offset) for entry in entries]
        self._relative(starts, numbers, values, Reason.UNKNOWN_KERNEL)

    def _in_section(self, section: str | int, numbers: _Numbers, values: U64) -> None:
        sections = self.index.sections
        chosen = self.index.chosen_sections(self.path).tolist()
        starts = [
            (text, 0)
            for text in chosen
            if section == (sections[text].section_index if isinstance(section, int) else sections[text].section)
        ]
        self._relative(starts, numbers, values, Reason.OUTSIDE_TEXT)

    def _relative(self, starts: list[tuple[int, int]], numbers: _Numbers, values: U64, missing: Reason) -> None:
        if len(starts) != 1:
            self.reason[numbers] = Reason.AMBIGUOUS if starts else missing
            for slot in range(len(values) if starts else 0):
                inside = [(text, at + int(values[slot])) for text, at in starts if self._fits(text, at, values[slot])]
                self._several(_number(numbers, slot), inside)
            return
        text, at = starts[0]
        room = np.uint64(max(self.index.section_size(text) - at, 0))
        self.section[numbers] = text
        self.offset[numbers] = values + np.uint64(at)
        in_text = values < room
        if not in_text.all():
            self.reason[numbers] = np.where(in_text, 0, Reason.OUTSIDE_TEXT)

    def _fits(self, text: int, at: int, value: np.uint64) -> bool:
        return at + int(value) < self.index.section_size(text)

    def answers(self) -> Answers:
        """One search and one gather for all that have a place; the reason's own location for the rest."""
        located = self.reason == 0
        if located.all():
            location, locations = self.index.located(self.section, self.offset)
            text = self.section.view(np.uint32) + np.uint32(1)
            return Answers(location, text, self.offset, locations, self.index.sections, self.candidates)
        location = self.reason.astype(np.uint32)
        location[located], locations = self.index.located(self.section[located], self.offset[located])
        text = np.where(located, self.section + 1, 0).astype(np.uint32)
        offset = np.where(located, self.offset, np.uint64(0))
        return Answers(location, text, offset, locations, self.index.sections, self.candidates)


def _number(numbers: _Numbers, slot: int) -> int:
    return slot if isinstance(numbers, slice) else int(numbers[slot])
