"""Range lists of many DIEs at once: ``.debug_ranges`` (DWARF 4, 2.17.3) and ``.debug_rnglists`` (DWARF 5, 7.25)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.dwarf.attributes import AttributeReader
from symd.dwarf.bulk_read import Positions, spans, uleb_at, unsigned_at
from symd.dwarf.bulk_records import Layouts, Records
from symd.dwarf.constants import Rle
from symd.dwarf.forms import ValueLayout
from symd.dwarf.sections import DebugSections
from symd.errors import LimitExceeded
from symd.model.columns import U8, U64

_END_OF_LIST, _LAST_KIND = int(Rle.DW_RLE_end_of_list), int(Rle.DW_RLE_start_length)
_BASE_ADDRESSX, _BASE_ADDRESS = int(Rle.DW_RLE_base_addressx), int(Rle.DW_RLE_base_address)
_OFFSET_PAIR = int(Rle.DW_RLE_offset_pair)
_DIRECT = (Rle.DW_RLE_base_address, Rle.DW_RLE_start_end, Rle.DW_RLE_start_length)
_INDEXED = (Rle.DW_RLE_base_addressx, Rle.DW_RLE_startx_endx, Rle.DW_RLE_startx_length)
_LISTS_READ_ALONE = 16
"""So few lists, left over of many or all of them, are read one after the other."""
_ROUND_STEPS = 64
"""What one more entry of many lists takes, however few they are."""
_LEB = b"[\\x80-\\xff]*+[\\x00-\\x7f]"


class RangeRows(NamedTuple):
    """Range rows in the order of the lists; ``which`` numbers the lists as they were asked for. Empty ranges are not
    returned."""

    which: Positions
    start: U64
    end: U64


class _ListEntries(NamedTuple):
    """Entries of range lists, list by list: ``base`` marks those that set the base address to ``start``; ``relative``
    those that count from it."""

    which: Positions
    start: U64
    end: U64
    base: NDArray[np.bool_]
    relative: NDArray[np.bool_]


def read_lists(sections: DebugSections, reader: AttributeReader, offset: U64, unit: Positions) -> tuple[RangeRows, int]:
    """The lists at ``offset`` of each unit's range section, and the number of those that do not end or hold an unknown
    entry (they have no rows). Raises LimitExceeded for lists that overlap so much that together they are many times as
    long as their section."""
    new = reader.units.version[unit] >= 5
    size = reader.units.address_size[unit]
    parts = [RangeRows(np.zeros(0, np.int64), np.zeros(0, np.uint64), np.zeros(0, np.uint64))]
    bad = 0
    kind = size * np.uint64(2) + new
    for width, is_new in (divmod(number, 2) for number in _different(kind)):
        those = np.flatnonzero(kind == 2 * width + is_new)
        if is_new:
            entries, damaged = _read_new(sections, reader, offset[those], unit[those], width)
        else:
            entries, damaged = _read_old(sections, offset[those], width)
        part = _resolve(entries, reader.units.low_pc[unit[those]])
        parts.append(part._replace(which=those[part.which]))
        bad += damaged
    return in_order(parts), bad


def _different(small: NDArray[Any]) -> list[int]:
    """The different values of a column of small numbers, ascending."""
    numbers: list[int] = np.flatnonzero(np.bincount(small.astype(np.intp))).tolist()
    return numbers


def in_order(parts: list[RangeRows]) -> RangeRows:
    """Rows of several parts, by ``which``; those of one list stay as they are."""
    rows = RangeRows._make(np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(rows.which, kind="stable")
    return RangeRows._make(column[order] for column in rows)


def _budget(size: int) -> int:
    """Bytes that all lists of a section may have together."""
    return 4 * size + 65536


def _read_old(sections: DebugSections, offset: U64, width: int) -> tuple[_ListEntries, int]:
    """Pairs of addresses up to a pair of zeros; a first address of all ones sets the base."""
    section, data = sections.ranges, sections.ranges.data
    offset = np.minimum(offset, np.uint64(len(data))).astype(np.int64)
    parts = []
    bad = 0
    for phase in _different(offset % (2 * width)):
        those = np.flatnonzero(offset % (2 * width) == phase)
        usable = (len(data) - phase) // (2 * width) if phase <= len(data) else 0
        pairs = np.frombuffer(data, f"<u{width}", 2 * usable, phase if usable else 0).reshape(usable, 2)
        ends = np.append(np.flatnonzero((pairs[:, 0] == 0) & (pairs[:, 1] == 0)), usable)
        first = np.minimum(offset[those] // (2 * width), usable)
        last = ends[np.searchsorted(ends, first)]
        whole = last < usable
        bad += int((~whole).sum())
        length = np.where(whole, last - first, 0)
        if int(length.sum()) * 2 * width > _budget(len(data)):
            raise LimitExceeded("range lists overlap without end", where=section.name)
        sections.spend(int(length.sum()), section.name)
        at, which = spans(first, length)
        start, end = pairs[at, 0].astype(np.uint64), pairs[at, 1].astype(np.uint64)
        base = start == np.uint64((1 << 8 * width) - 1)
        parts.append(_ListEntries(those[which], np.where(base, end, start), end, base, ~base))
    entries = parts[0] if len(parts) == 1 else _in_order(parts)
    return entries, bad


def _in_order(parts: list[_ListEntries]) -> _ListEntries:
    joined = _ListEntries._make(np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(joined.which, kind="stable")
    return _ListEntries._make(column[order] for column in joined)


def _resolve(entries: _ListEntries, default_base: U64) -> RangeRows:
    """Add the base that is in force to every relative entry."""
    count = len(entries.which)
    changes = np.ones(count, np.bool_)
    changes[1:] = entries.which[1:] != entries.which[:-1]
    value = default_base[entries.which]
    # An entry that sets the base begins a new stretch; as it is dropped, its own base does not matter.
    value[entries.base] = entries.start[entries.base]
    changes |= entries.base
    at = np.flatnonzero(changes)
    base = np.repeat(value[at], np.diff(at, append=count))
    start = np.where(entries.relative, entries.start + base, entries.start)
    end = np.where(entries.relative, entries.end + base, entries.end)
    kept = ~entries.base & (start < end)
    return RangeRows(entries.which[kept], start[kept], end[kept])


def _read_new(
    sections: DebugSections, reader: AttributeReader, offset: U64, unit: Positions, width: int
) -> tuple[_ListEntries, int]:
    """Tagged entries up to DW_RLE_end_of_list."""
    u8 = np.frombuffer(sections.range_lists.data, np.uint8)
    at, length = _Lists(sections, u8, width).entries(np.minimum(offset, np.uint64(len(u8))).astype(np.int64))
    which = np.repeat(np.arange(len(offset)), np.maximum(length, 0))
    return _decode(u8, reader, at, which, unit[which], width), int((length < 0).sum())


class _Lists:
    """Finds the entries of many lists at once, with a budget of bytes, and of steps."""

    def __init__(self, sections: DebugSections, u8: U8, width: int) -> None:
        self._sections = sections
        self._section = sections.range_lists.name
        self._data = sections.range_lists.data
        self._u8 = u8
        self._width = width
        self._budget = _budget(len(u8))

    def entries(self, offset: Positions) -> tuple[Positions, Positions]:
        """Where the entries of the lists at each offset are, list by list, and how many each has; -1 for a list that is
        damaged."""
        length = np.full(len(offset), -1, np.int64)
        pieces = [*self._step_by_step(offset, length)]
        first = np.cumsum(np.maximum(length, 0)) - np.maximum(length, 0)
        found = np.zeros(int(np.maximum(length, 0).sum()), np.int64)
        for number, of_list, at in pieces:
            whole = length[number] >= 0
            found[(first[number] + of_list)[whole]] = at[whole]
        return found, length

    def _step_by_step(self, at: Positions, length: Positions) -> Iterator[tuple[Positions, Positions | int, Positions]]:
        """Pieces of entries: list, number in its list, position. Sets the lengths of lists that have an end."""
        records = Records(self._u8, [_entry_layouts(self._width)])
        number = np.arange(len(at))
        step = 0
        while len(at) > _LISTS_READ_ALONE:
            self._sections.spend(_ROUND_STEPS + len(at), self._section)
            (inside,) = (at < len(self._u8)).nonzero()
            at, number = at.take(inside), number.take(inside)
            kind = self._u8.take(at).astype(np.int64)
            length[number[kind == _END_OF_LIST]] = step
            (going,) = ((kind != _END_OF_LIST) & (kind <= _LAST_KIND)).nonzero()
            at, number = at.take(going), number.take(going)
            yield number, step, at
            after = records.after(at, kind.take(going))
            self._spend(int((np.minimum(after, len(self._u8)) - at).sum()))
            at = after
            step += 1
        for one, start in zip(number.tolist(), at.tolist(), strict=True):
            rest = self._alone(start)
            if rest is not None:
                self._sections.spend(len(rest), self._section)
                length[one] = step + len(rest)
                yield np.full(len(rest), one), step + np.arange(len(rest)), rest

    def _alone(self, start: int) -> Positions | None:
        """The entries of one list, which may be very long."""
        entry, run = _expressions(self._width)
        found = run.match(self._data, start)
        stop = found.end() if found else start
        self._spend(stop + 1 - start)
        if self._data[stop : stop + 1] != b"\0":
            return None
        sizes = np.fromiter(map(len, entry.findall(self._data, start, stop)), np.int64)
        return np.cumsum(sizes) - sizes + start

    def _spend(self, count: int) -> None:
        self._budget -= count
        if self._budget < 0:
            raise LimitExceeded("range lists overlap without end", where=self._section)


def _entry_layouts(width: int) -> dict[int, Layouts]:
    """What follows the kind of an entry."""
    return {
        Rle.DW_RLE_end_of_list: (),
        Rle.DW_RLE_base_addressx: (ValueLayout.LEB,),
        **dict.fromkeys(
            (Rle.DW_RLE_startx_endx, Rle.DW_RLE_startx_length, Rle.DW_RLE_offset_pair),
            (ValueLayout.LEB, ValueLayout.LEB),
        ),
        Rle.DW_RLE_base_address: (width,),
        Rle.DW_RLE_start_end: (2 * width,),
        Rle.DW_RLE_start_length: (width, ValueLayout.LEB),
    }


@lru_cache(maxsize=4)
def _expressions(width: int) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """One entry; and entries up to an end."""
    address = b".{%d}" % width
    operands = {
        Rle.DW_RLE_offset_pair: _LEB + _LEB,
        Rle.DW_RLE_startx_endx: _LEB + _LEB,
        Rle.DW_RLE_startx_length: _LEB + _LEB,
        Rle.DW_RLE_base_addressx: _LEB,
        Rle.DW_RLE_base_address: address,
        Rle.DW_RLE_start_end: address + address,
        Rle.DW_RLE_start_length: address + _LEB,
    }
    some = b"|".join(b"\\x%02x" % kind + pattern for kind, pattern in operands.items())
    return re.compile(some, re.DOTALL), re.compile(b"(?:" + some + b")*+", re.DOTALL)


def _decode(
    u8: U8, reader: AttributeReader, at: Positions, which: Positions, unit: Positions, width: int
) -> _ListEntries:
    kind = u8[at]
    start, end = np.zeros(len(at), np.uint64), np.zeros(len(at), np.uint64)
    valid = np.ones(len(at), np.bool_)
    for number in _different(kind):
        those = np.flatnonzero(kind == number)
        start[those], end[those], valid[those] = _operands(u8, reader, number, at[those] + 1, unit[those], width)
    base = (kind == _BASE_ADDRESSX) | (kind == _BASE_ADDRESS)
    columns = (which, start, end, base, kind == _OFFSET_PAIR)
    return _ListEntries._make(column[valid] for column in columns)


def _operands(
    u8: U8, reader: AttributeReader, kind: int, at: Positions, unit: Positions, width: int
) -> tuple[U64, U64, NDArray[np.bool_]]:
    """Start and end of entries of one kind (absolute, or relative for an offset pair), and which of them are valid."""
    known = np.ones(len(at), np.bool_)
    if kind in _DIRECT:
        start, after = unsigned_at(u8, at, width), at + width
    else:
        start, after = uleb_at(u8, at)
    if kind in _INDEXED:
        start, known = reader.addresses_at(start, unit)
    if kind in (Rle.DW_RLE_base_addressx, Rle.DW_RLE_base_address):
        return start, start, known
    if kind == Rle.DW_RLE_start_end:
        return start, unsigned_at(u8, after, width), known
    end, _ = uleb_at(u8, after)
    if kind == Rle.DW_RLE_startx_endx:
        end, end_known = reader.addresses_at(end, unit)
        known &= end_known
    return start, start + end if kind in (Rle.DW_RLE_startx_length, Rle.DW_RLE_start_length) else end, known
