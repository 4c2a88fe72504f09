"""Passes many records at once: a record begins with a code (a LEB128), which says what values follow. DIEs are such
records, and so are the entries of range lists.

Where the records of a long stretch begin is found in steps of many places at once: from places in regular distances,
records are followed as if one began there. Nearly all of these guesses are wrong, but two chains that meet stay
together, and they meet after a few records. So each chain is followed until it meets the next one, and the one from the
stretch's true beginning, continued by the one that it meets, and so on, is the true one.

An example with eight bytes and guesses four bytes apart. Code 1 has a value of one byte, code 2 has none::

    byte       0  1  2  3  4  5  6  7
    content   01 02 02 01 01 02 01 00
    chain A    x     x  x     x            from 0: records at 0, 2 and 3, then at 5, which is beyond the next guess
    chain B                x     x         from 4, which is a value in truth: records at 4 and 6
    true       x     x  x     x  x         A goes on from 5 to 6, where it meets B: what B has before 6 is dropped
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.dwarf import forms
from symd.dwarf.bulk_read import Positions, spans, uleb_at, unsigned_at
from symd.dwarf.forms import ValueLayout
from symd.model.columns import U8

Layouts = tuple[int, ...]
"""The values of a record: sizes, and kinds of values whose size is not fixed; no two sizes side by side."""
CODE_LIMIT = 1 << 14
"""Codes below this one take one or two bytes; larger ones are not taken."""
_CODES_OF_A_BYTE = 1 << 7
_BYTE_VALUES = 1 << 8
_SEED_DISTANCE = 512
"""Bytes from one guess to the next."""
_MEETING_STEPS = 8 * _SEED_DISTANCE
"""Records after which chains that have not met are given up."""
_LEB128_BYTES = 10
_FAR = 1 << 40
"""A place after the end of every section: where a value without an end leads."""


def merged(layouts: Iterable[int]) -> Layouts:
    """Layouts with neighbouring fixed sizes added up."""
    found: list[int] = []
    for layout in layouts:
        if layout >= 0 and found and found[-1] >= 0:
            found[-1] += layout
        else:
            found.append(layout)
    return tuple(size for size in found if size)


class Records:
    """The records of some tables, each a map from codes (below CODE_LIMIT) to values, none of them INDIRECT or UNKNOWN.

    Every code of every table has a row (``rows_at``), by which ``column`` lays out what a caller knows about codes. A
    code that is not in its table has one too; its record is passed as one byte. Positions after the end of ``data``
    stand for its last byte.
    """

    def __init__(self, data: U8, tables: Sequence[Mapping[int, Layouts]]) -> None:
        self._data = data
        self._zeros: Positions | None = None
        room = np.array([max(_BYTE_VALUES, _place(max(table, default=0)) + 1) for table in tables], np.int64)
        self._ends = np.cumsum(room)
        self.base = self._ends - room
        self._wide = bool((room > _BYTE_VALUES).any())
        steps = _Steps(int(room.sum()))
        for base, table in zip(self.base.tolist(), tables, strict=True):
            for code, values in table.items():
                steps.set(base + _place(code), 1 + (code >= _CODES_OF_A_BYTE), values)
        lead, kind, tail, self._following = steps.columns()
        self._lead, self._kind, self._tail = lead, kind.astype(np.int8), tail
        self._layouts = sorted(set(kind.tolist()) - {0})
        self._chained = bool(self._following.any())

    def column(self, values: Sequence[Mapping[int, int]], default: int, dtype: type[np.generic]) -> NDArray[Any]:
        """A column by row of what each table's codes have; ``default`` for all other codes."""
        column = np.full(self._ends[-1], default, dtype)
        for base, table in zip(self.base.tolist(), values, strict=True):
            column[[base + _place(code) for code in table]] = list(table.values())
        return column

    def rows_at(self, at: Positions, base: Positions | int) -> Positions:
        """The rows of the codes at ``at``, whose tables begin at the rows ``base``."""
        first = self._data.take(at, mode="clip")
        rows: Positions = base + first if isinstance(base, np.ndarray) else first.astype(np.intp) + base
        if self._wide:
            wide = np.flatnonzero(first >= _CODES_OF_A_BYTE)
            rows[wide] = self._wide_rows(at[wide], rows[wide] - first[wide], rows[wide])
        return rows

    def _wide_rows(self, at: Positions, base: Positions, otherwise: Positions) -> Positions:
        second = self._data.take(at + 1, mode="clip").astype(np.int64)
        code = (self._data.take(at, mode="clip") & 0x7F) | second << 7
        end = self._ends[np.searchsorted(self._ends, base, side="right")]
        row = base + _CODES_OF_A_BYTE + code
        known = (second < 0x80) & (code >= _CODES_OF_A_BYTE) & (row < end)
        return np.where(known, row, otherwise)

    def after(self, at: Positions, rows: Positions) -> Positions:
        """The position after each record, which may lead out of the data."""
        at = at + self._lead.take(rows)
        kind = self._kind.take(rows)
        for layout in self._layouts:
            those = kind == layout
            if layout == ValueLayout.LEB:
                self._pass_lebs(at, those)
            elif np.count_nonzero(those):
                (which,) = those.nonzero()
                at[which] = self._after_value(layout, at.take(which))
        at += self._tail.take(rows)
        if self._chained:
            following = self._following.take(rows)
            (more,) = following.nonzero()
            if more.size:
                at[more] = self.after(at.take(more), following.take(more))
        return at

    def _pass_lebs(self, at: Positions, goes_on: NDArray[np.bool_]) -> None:
        for _ in range(_LEB128_BYTES):
            byte = self._data.take(at, mode="clip")
            at += goes_on
            goes_on = goes_on & (byte >= 0x80)
            if not np.count_nonzero(goes_on):
                return
        at[goes_on] = _FAR

    def _after_value(self, layout: int, at: Positions) -> Positions:
        """The position after strings or blocks."""
        if layout == ValueLayout.STRING:
            return self._after_strings(at)
        size = self._data.take(at, mode="clip")
        if layout in (ValueLayout.BLOCK, ValueLayout.BLOCK1) and size.max() < 0x80:
            return at + 1 + size
        return self._after_blocks(layout, at)

    def _after_strings(self, at: Positions) -> Positions:
        if self._zeros is None:
            self._zeros = np.append(np.flatnonzero(self._data == 0), _FAR)
        return self._zeros.take(np.searchsorted(self._zeros, at), mode="clip") + 1

    def _after_blocks(self, layout: int, at: Positions) -> Positions:
        start = at.copy()
        if layout == ValueLayout.BLOCK:
            self._pass_lebs(start, np.ones(len(at), np.bool_))
        else:
            start += forms.BLOCK_LENGTH[ValueLayout(layout)]
        inside = np.flatnonzero(start <= len(self._data))
        at = at.take(inside)
        if layout == ValueLayout.BLOCK:
            size = uleb_at(self._data, at)[0]
        else:
            size = unsigned_at(self._data, at, forms.BLOCK_LENGTH[ValueLayout(layout)])
        start[inside] += np.minimum(size, np.uint64(_FAR)).astype(np.int64)
        return start

    def split(self, begin: Positions, end: Positions, base: Positions) -> Iterator[Positions] | None:
        """``places``, stretch by stretch."""
        at = self.places(begin, end, base)
        if at is None:
            return None
        first, last = np.searchsorted(at, begin), np.searchsorted(at, end)
        return (at[b:e] for b, e in zip(first.tolist(), last.tolist(), strict=True))

    def places(self, begin: Positions, end: Positions, base: Positions) -> Positions | None:
        """Where the records of some stretches begin: each begins with a record, and ends, or is passed, with one. Stretches
        are ascending and have no byte in common; ``base`` is that of each one's table.

        None where the records are so regular that guesses do not lead to them.
        """
        seeds = _Seeds.of(begin, end, base)
        origin = int(begin[0])
        marks = np.zeros(int(end[-1] - origin), np.bool_)
        met = self._meet(seeds, marks, origin, self._follow(seeds, marks, origin))
        if met is None:
            return None
        true = _true_chains(seeds, met.at)
        marks[spans(seeds.at, np.minimum(true, seeds.limit) - seeds.at)[0] - origin] = False
        marks[met.passed[true.take(met.chain) < _FAR] - origin] = True
        return np.flatnonzero(marks) + origin

    def _follow(self, seeds: _Seeds, marks: NDArray[np.bool_], origin: int) -> Positions:
        """Mark (from ``origin`` on) the records of every chain up to the next seed; where each chain is then."""
        exits = seeds.at.copy()
        at, chain, base, limit = seeds.at, np.arange(len(seeds.at)), seeds.base, seeds.limit
        while at.size:
            marks[at - origin] = True
            at = self.after(at, self.rows_at(at, base))
            over = at >= limit
            if np.count_nonzero(over):
                exits[chain[over]] = at[over]
                (going,) = np.logical_not(over, out=over).nonzero()
                at, chain, base, limit = (column.take(going) for column in (at, chain, base, limit))
        return exits

    def _meet(self, seeds: _Seeds, marks: NDArray[np.bool_], origin: int, at: Positions) -> _Meeting | None:
        """Follow the chains, which are at ``at``, until they are at a record that is marked, or out of their stretch."""
        meeting = at.copy()
        chain, base, end = np.arange(len(at)), seeds.base, seeds.end
        passed, chains = [at[:0]], [chain[:0]]
        for _ in range(_MEETING_STEPS):
            (going,) = ((at < end) & ~marks.take(at - origin, mode="clip")).nonzero()
            if not going.size:
                return _Meeting(meeting, np.concatenate(passed), np.concatenate(chains))
            at, chain, base, end = (column.take(going) for column in (at, chain, base, end))
            passed.append(at)
            chains.append(chain)
            at = self.after(at, self.rows_at(at, base))
            meeting[chain] = at
        return None


class _Seeds(NamedTuple):
    """Where chains begin: in regular distances from the beginning of each stretch. ``limit`` is the next seed or the
    end of the stretch, ``first`` tells the seeds at the beginnings."""

    at: Positions
    limit: Positions
    end: Positions
    base: Positions
    first: NDArray[np.bool_]

    @classmethod
    def of(cls, begin: Positions, end: Positions, base: Positions) -> _Seeds:
        number, stretch = spans(np.zeros_like(begin), (end - begin + _SEED_DISTANCE - 1) // _SEED_DISTANCE)
        at = begin[stretch] + number * _SEED_DISTANCE
        return cls(at, np.minimum(at + _SEED_DISTANCE, end[stretch]), end[stretch], base[stretch], number == 0)


class _Meeting(NamedTuple):
    """Where each chain met another one or left its stretch, and the records that chains passed on the way there."""

    at: Positions
    passed: Positions
    chain: Positions


def _true_chains(seeds: _Seeds, met: Positions) -> Positions:
    """From where on each chain is the true one; _FAR where it never is."""
    true = np.where(seeds.first, seeds.at, _FAR)
    number = np.arange(len(met))
    inside = met < seeds.end
    following = number + (met - seeds.at) // _SEED_DISTANCE
    if (following[inside] == number[inside] + 1).all() and (inside[:-1] | seeds.first[1:]).all():
        true[following[inside]] = met[inside]
        return true
    steps = np.where(inside, following, -1).tolist()
    places, found = met.tolist(), true.tolist()
    for chain, following_chain in enumerate(steps):
        if found[chain] < _FAR and following_chain >= 0:
            found[following_chain] = places[chain]
    return np.array(found, np.int64)


class _Steps:
    """Rows of what to pass: ``lead`` bytes, a value of ``kind`` (0: none), ``tail`` bytes, and then the row
    ``following`` (0: nothing more). Rows after the first ``count`` are only such ones that follow."""

    def __init__(self, count: int) -> None:
        self._first, self._count = count, count
        self._stated: dict[int, tuple[int, int, int, int]] = {}
        self._known: dict[Layouts, int] = {(): 0}

    def columns(self) -> NDArray[np.int64]:
        """``lead``, ``kind``, ``tail`` and ``following`` of all rows. Nearly all of them are of codes that nobody declares: one
        byte."""
        table = np.zeros((4, self._count), np.int64)
        table[0, : self._first] = 1
        table[:, list(self._stated)] = np.array(list(self._stated.values()), np.int64).reshape(-1, 4).T
        return table

    def set(self, row: int, code_size: int, values: Layouts) -> None:
        """Say that the record of this row has a code of so many bytes and these values."""
        lead, values = (values[0], values[1:]) if values and values[0] >= 0 else (0, values)
        kind, values = (values[0], values[1:]) if values else (0, values)
        tail, values = (values[0], values[1:]) if values and values[0] >= 0 else (0, values)
        self._stated[row] = code_size + lead, kind, tail, self._rest(values)

    def _rest(self, values: Layouts) -> int:
        number = self._known.get(values)
        if number is None:
            number = self._known[values] = self._count
            self._count += 1
            self.set(number, 0, values)
        return number


def _place(code: int) -> int:
    """Where the row of a code is among those of its table: first bytes of longer codes have rows too."""
    return code if code < _CODES_OF_A_BYTE else code + _CODES_OF_A_BYTE
