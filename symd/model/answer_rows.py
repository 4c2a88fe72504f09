"""Answers of a batch one after the other. What a piece of the batch has in its columns becomes Python's objects at once, so that little is
left to do for each answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from symd.model.answers import Answer, Answers, Frame, Locations, Reason, TextSection
from symd.model.columns import U32, U64

ANSWERS_IN_CACHE, ANSWERS_AT_ONCE = 1 << 11, 1 << 16
"""Answers whose columns are Python's objects at a time: so few that their frames stay in the processor's caches, and where they have few
distinct ones as many as make the work on columns cheap."""
_REPEATED = 2
"""Answers of a piece that have few locations: so many to each."""
KEPT_LOCATIONS = 1 << 16
"""Locations of a table whose frames are kept from one piece to the next."""
KEPT_TEXTS = 1 << 16
"""Texts that are kept from one piece to the next."""
_ADDRESSES = 1 << 64

Objects = NDArray[np.object_]
_REASONS = {int(reason): reason for reason in Reason}


def rows(answers: Answers, every: range) -> Iterator[Answer]:
    """The answers with these numbers. Those of one location share their frames, where they stand near each other."""
    return chain.from_iterable(_pieces(answers, every))


def _pieces(answers: Answers, every: range) -> Iterator[Iterator[Answer]]:
    spelled, first, size = _Spelled(answers.locations), 0, ANSWERS_IN_CACHE
    while first < len(every):
        numbers = every[first : first + size]
        yield _piece(answers, numbers, spelled)
        first += size
        size = ANSWERS_AT_ONCE if spelled.distinct * _REPEATED < len(numbers) else ANSWERS_IN_CACHE


def _piece(answers: Answers, numbers: range, spelled: _Spelled) -> Iterator[Answer]:
    part = slice(numbers.start, numbers.stop if numbers.stop >= 0 else None, numbers.step)
    reason, kernel, frames = spelled.columns(answers.location[part])
    path, name, number, offset, address = _places(
        answers.text_sections, answers.text_section[part], answers.offset[part]
    )
    known = answers.candidates
    candidates: Iterable[Any] = [known.get(at, ()) for at in numbers] if known else repeat(())
    columns = zip(reason, path, kernel, name, number, offset, address, frames, candidates, strict=False)
    return map(tuple.__new__, repeat(Answer), columns)


def _places(sections: Sequence[TextSection], number: U32, offset: U64) -> list[list[Any]]:
    """Path, section name, section number, offset and address of each answer; None where ``number`` is 0."""
    paths, names, numbers, addresses = zip(*sections, strict=True) if sections else ((), (), (), ())
    columns = [_objects((None, *column))[number].tolist() for column in (paths, names, numbers)]
    if int(number.min()) and max(addresses) + int(offset.max()) < _ADDRESSES:
        address = np.array((0, *addresses), np.uint64)[number] + offset
        return [*columns, offset.tolist(), address.tolist()]
    offsets = [at if section else None for section, at in zip(number.tolist(), offset.tolist(), strict=True)]
    starts = (0, *addresses)
    places = zip(number.tolist(), offsets, strict=True)
    return [*columns, offsets, [None if at is None else starts[section] + at for section, at in places]]


class _Spelled:
    """The locations of a table in objects, as pieces of a batch need them. Those of a table that is not large are kept."""

    def __init__(self, table: Locations) -> None:
        self._table = table
        self._texts: dict[int, str | None] = {}
        self.distinct = 0
        """Locations that were made for the last piece."""
        kept = len(table) if len(table) <= KEPT_LOCATIONS else 0
        self._is_kept = np.zeros(kept, np.bool_)
        self._kept = [np.empty(kept, np.object_) for _ in range(3)]

    def columns(self, numbers: U32) -> list[list[Any]]:
        """Reason, kernel and frames of each of these locations. One without function and file stands for a reason alone."""
        if not len(self._is_kept):
            few, at = np.unique(numbers, return_inverse=True)
            return [each[at].tolist() for each in self._columns_of(few)]
        few = np.unique(numbers[~self._is_kept[numbers]])
        for kept, some in zip(self._kept, self._columns_of(few), strict=True):
            kept[few] = some
        self._is_kept[few] = True
        return [each[numbers].tolist() for each in self._kept]

    def _columns_of(self, few: U32) -> tuple[Objects, Objects, Objects]:
        """The same of distinct locations, ascending."""
        if len(self._texts) > KEPT_TEXTS:
            self._texts = {}
        self.distinct = len(few)
        table = self._table
        reasons = [_REASONS.get(number) or Reason(number) for number in table.reason[few].tolist()]
        return _objects(reasons), _objects(self._texts_of(table.kernel[few])), self._frames_of(few)

    def _frames_of(self, numbers: U32) -> Objects:
        """The frames of each of some locations, ascending: of those that are equally deep at once."""
        table = self._table
        numbers = np.where(table.function[numbers] | table.file[numbers], numbers, 0)
        depths = [numbers]
        while (around := table.parent[depths[-1]]).any():
            depths.append(around)
        used, at = np.unique(np.concatenate(depths), return_inverse=True)
        frames = self._made(used)[at].reshape(len(depths), -1)
        found = np.full(len(numbers), None, np.object_)
        deep = np.count_nonzero(depths, axis=0)
        for depth in range(len(depths) + 1):
            chosen = np.flatnonzero(deep == depth)
            found[chosen] = _objects(
                [*zip(*frames[:depth, chosen].tolist(), strict=True)] if depth else [()] * len(chosen)
            )
        return found

    def _made(self, numbers: U32) -> Objects:
        """The frames of these locations alone."""
        table = self._table
        texts = [self._texts_of(column[numbers]) for column in (table.function, table.linkage_name, table.file)]
        inlined = table.inlined[numbers].astype(np.bool_).tolist()
        columns = zip(*texts, table.line[numbers].tolist(), table.column[numbers].tolist(), inlined, strict=True)
        return np.fromiter(map(tuple.__new__, repeat(Frame), columns), np.object_, len(numbers))

    def _texts_of(self, numbers: U32) -> list[str | None]:
        known, wanted = self._texts, numbers.tolist()
        for number in set(wanted).difference(known):
            known[number] = self._table.strings[number] or None
        return [known[number] for number in wanted]


def _objects(values: Sequence[Any]) -> Objects:
    return np.fromiter(values, np.object_, len(values))
