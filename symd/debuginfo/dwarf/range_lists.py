"""Range lists of many DIEs at once: ``.debug_ranges`` (DWARF 4, 2.17.3) and ``.debug_rnglists`` (DWARF 5, 7.25)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.debuginfo.dwarf.attributes import AttributeReader
from symd.debuginfo.dwarf.columns import Sections
from symd.debuginfo.dwarf.gather import Positions, uleb_at, unsigned_at
from symd.errors import LimitExceeded
from symd.model import U8, U64

_BASE_ADDRESSX, _STARTX_ENDX, _STARTX_LENGTH, _OFFSET_PAIR = 1, 2, 3, 4
_BASE_ADDRESS, _START_END, _START_LENGTH = 5, 6, 7
_DIRECT = (_BASE_ADDRESS, _START_END, _START_LENGTH)
_INDEXED = (_BASE_ADDRESSX, _STARTX_ENDX, _STARTX_LENGTH)
_LEB = b"[\\x80-\\xff]*+[\\x00-\\x7f]"


class Ranges(NamedTuple):
    """Range rows in the order of the lists; ``which`` numbers the lists as they were asked for. Empty ranges are not
    returned."""

    which: Positions
    start: U64
    end: U64


class _Entries(NamedTuple):
    """Entries of range lists, list by list: ``base`` marks those that set the base address to ``start``; ``relative``
    those that count from it."""

    which: Positions
    start: U64
    end: U64
    base: NDArray[np.bool_]
    relative: NDArray[np.bool_]


def read_lists(sections: Sections, reader: AttributeReader, offset: U64, unit: Positions) -> tuple[Ranges, int]:
    """The lists at ``offset`` of each unit's range section, and the number of those that do not end or hold an unknown
    entry (they have no rows). Raises LimitExceeded for lists that overlap so much that together they are many times as
    long as their section."""
    new = reader.units.version[unit] >= 5
    size = reader.units.address_size[unit]
    parts = [Ranges(np.zeros(0, np.int64), np.zeros(0, np.uint64), np.zeros(0, np.uint64))]
    bad = 0
    kind = size * np.uint64(2) + new
    for width, is_new in (divmod(number, 2) for number in np.unique(kind).tolist()):
        those = np.flatnonzero(kind == 2 * width + is_new)
        if is_new:
            data = sections.get(".debug_rnglists", b"")
            entries, damaged = _read_new(data, reader, offset[those], unit[those], width)
        else:
            entries, damaged = _read_old(sections.get(".debug_ranges", b""), offset[those], width)
        part = _resolve(entries, reader.units.low_pc[unit[those]])
        parts.append(part._replace(which=those[part.which]))
        bad += damaged
    return in_order(parts), bad


def in_order(parts: list[Ranges]) -> Ranges:
    """Rows of several parts, by ``which``; those of one list stay as they are."""
    rows = Ranges._make(np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(rows.which, kind="stable")
    return Ranges._make(column[order] for column in rows)


def spans(first: Positions, length: Positions) -> tuple[Positions, Positions]:
    """Every number of the spans that begin at ``first``, and the number of its span."""
    which = np.repeat(np.arange(len(first)), length)
    behind = np.cumsum(length)
    return np.arange(len(which)) + (first - (behind - length))[which], which


def _check_budget(section: str, wanted: int, size: int) -> None:
    if wanted > 4 * size + 65536:
        raise LimitExceeded(f"range lists overlap without end: {wanted} bytes of lists", where=section)


def _read_old(data: bytes, offset: U64, width: int) -> tuple[_Entries, int]:
    """Pairs of addresses up to a pair of zeros; a first address of all ones sets the base."""
    offset = np.minimum(offset, np.uint64(len(data))).astype(np.int64)
    parts = []
    bad = 0
    for phase in np.unique(offset % (2 * width)).tolist():
        those = np.flatnonzero(offset % (2 * width) == phase)
        usable = (len(data) - phase) // (2 * width) if phase <= len(data) else 0
        pairs = np.frombuffer(data, f"<u{width}", 2 * usable, phase if usable else 0).reshape(usable, 2)
        ends = np.append(np.flatnonzero((pairs[:, 0] == 0) & (pairs[:, 1] == 0)), usable)
        first = np.minimum(offset[those] // (2 * width), usable)
        last = ends[np.searchsorted(ends, first)]
        whole = last < usable
        bad += int((~whole).sum())
        length = np.where(whole, last - first, 0)
        _check_budget(".debug_ranges", int(length.sum()) * 2 * width, len(data))
        at, which = spans(first, length)
        start, end = pairs[at, 0].astype(np.uint64), pairs[at, 1].astype(np.uint64)
        base = start == np.uint64((1 << 8 * width) - 1)
        parts.append(_Entries(those[which], np.where(base, end, start), end, base, ~base))
    entries = parts[0] if len(parts) == 1 else _in_order(parts)
    return entries, bad


def _in_order(parts: list[_Entries]) -> _Entries:
    joined = _Entries._make(np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(joined.which, kind="stable")
    return _Entries._make(column[order] for column in joined)


def _resolve(entries: _Entries, default_base: U64) -> Ranges:
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
    return Ranges(entries.which[kept], start[kept], end[kept])


def _read_new(data: bytes, reader: AttributeReader, offset: U64, unit: Positions, width: int) -> tuple[_Entries, int]:
    """Tagged entries up to DW_RLE_end_of_list."""
    u8 = np.frombuffer(data, np.uint8)
    wanted = np.minimum(offset, np.uint64(len(data))).astype(np.int64)
    split = _Splitter(data, width).split(wanted, unit)
    numbers, which = spans(split.first, np.maximum(split.length, 0))
    return _decode(u8, reader, split.at[numbers], which, unit[which], width), int((split.length < 0).sum())


class _Split(NamedTuple):
    """``at`` is where entries are; each list begins with entry ``first`` and has ``length`` entries before its end. A
    list that is damaged has length -1."""

    at: Positions
    first: Positions
    length: Positions


class _Splitter:
    """Finds the entries of lists, with a budget of bytes."""

    def __init__(self, data: bytes, width: int) -> None:
        self._data = data
        self._u8 = np.frombuffer(data, np.uint8)
        self._entry, self._run = _expressions(width)
        self._read = 0

    def split(self, offset: Positions, unit: Positions) -> _Split:
        """A unit's lists lie one behind the other, so they are split in one go; where they do not, each alone."""
        parts = [np.zeros(0, np.int64)]
        first, length = np.zeros(len(offset), np.int64), np.full(len(offset), -1, np.int64)
        count = 0
        order = np.lexsort((offset, unit))
        for group in np.split(order, np.flatnonzero(np.diff(unit[order])) + 1) if len(order) else []:
            for lists, at in self._together(offset, group) or self._alone(offset, group):
                begin = np.searchsorted(at, offset[lists])
                ends = np.flatnonzero(self._u8[at] == 0)
                first[lists] = begin + count
                length[lists] = ends[np.searchsorted(ends, begin)] - begin
                parts.append(at)
                count += len(at)
                self._spend(int(length[lists].sum()))
        return _Split(np.concatenate(parts), first, length)

    def _together(self, offset: Positions, group: Positions) -> list[tuple[Positions, Positions]]:
        at = self._entries(offset[group])
        return [] if at is None else [(group, at)]

    def _alone(self, offset: Positions, group: Positions) -> Iterator[tuple[Positions, Positions]]:
        for number in range(len(group)):
            yield from self._together(offset, group[number : number + 1])

    def _entries(self, offset: Positions) -> Positions | None:
        """Where the entries of the lists at ascending offsets are, if the lists lie one behind the other."""
        start, last = int(offset[0]), int(offset[-1])
        run = self._run.match(self._data, last)
        stop = run.end() if run else last
        self._spend(stop + 1 - start)
        if self._data[stop : stop + 1] != b"\0":
            return None
        sizes = np.fromiter(map(len, self._entry.findall(self._data, start, stop + 1)), np.int64)
        at = np.cumsum(sizes) - sizes + start
        number = np.minimum(np.searchsorted(at, offset), len(at) - 1)
        return at if start + int(sizes.sum()) == stop + 1 and (at[number] == offset).all() else None

    def _spend(self, count: int) -> None:
        self._read += count
        _check_budget(".debug_rnglists", self._read, len(self._data))


def _expressions(width: int) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """One entry or the end of a list (what is neither is passed whole, without the group); and entries up to an end."""
    address = b".{%d}" % width
    going = (
        b"[\\x02-\\x04]" + _LEB + _LEB,
        b"\\x01" + _LEB,
        b"\\x05" + address,
        b"\\x06" + address + address,
        b"\\x07" + address + _LEB,
    )
    some = b"|".join(going)
    return re.compile(b"(" + some + b"|\\x00)|.++", re.DOTALL), re.compile(b"(?:" + some + b")*+", re.DOTALL)


def _decode(u8: U8, reader: AttributeReader, at: Positions, which: Positions, unit: Positions, width: int) -> _Entries:
    kind = u8[at]
    start, end = np.zeros(len(at), np.uint64), np.zeros(len(at), np.uint64)
    valid = np.ones(len(at), np.bool_)
    for number in np.unique(kind).tolist():
        those = np.flatnonzero(kind == number)
        start[those], end[those], valid[those] = _operands(u8, reader, number, at[those] + 1, unit[those], width)
    base = (kind == _BASE_ADDRESSX) | (kind == _BASE_ADDRESS)
    columns = (which, start, end, base, kind == _OFFSET_PAIR)
    return _Entries._make(column[valid] for column in columns)


def _operands(
    u8: U8, reader: AttributeReader, kind: int, at: Positions, unit: Positions, width: int
) -> tuple[U64, U64, NDArray[np.bool_]]:
    """Start and end of entries of one kind (absolute, or relative for an offset pair), and which of them are valid."""
    known = np.ones(len(at), np.bool_)
    if kind in _DIRECT:
        start, behind = unsigned_at(u8, at, width), at + width
    else:
        start, behind = uleb_at(u8, at)
    if kind in _INDEXED:
        start, known = reader.addresses_at(start, unit)
    if kind in (_BASE_ADDRESSX, _BASE_ADDRESS):
        return start, start, known
    if kind == _START_END:
        return start, unsigned_at(u8, behind, width), known
    end, _ = uleb_at(u8, behind)
    if kind == _STARTX_ENDX:
        end, end_known = reader.addresses_at(end, unit)
        known &= end_known
    return start, start + end if kind in (_STARTX_LENGTH, _START_LENGTH) else end, known
