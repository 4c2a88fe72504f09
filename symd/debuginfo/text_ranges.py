"""Ranges of code: which function or inlined call has an address where ranges overlap, and the part of decoded debug
data that a few places need. An index of that part answers at these places as the whole index does, and is made in less
time.

Compilers nest the ranges of scopes; then the innermost scope has the address. Where they do not nest, they contradict
each other, and symd decides as llvm-symbolizer does (llvm/lib/DebugInfo/DWARF/DWARFUnit.cpp, updateAddressDieMap):
ranges are entered one by one into a map of disjoint pieces, a scope before what is in it and siblings in their
order.

* A range that begins inside a piece takes its part of it. What is left of the piece on both sides stays with its owner.
* A range that begins where a piece begins takes its place, whether it is as long or not; a longer piece keeps its end.
* A range that reaches over the beginning of another piece ends there. The part of it after that piece is nobody's.

So of A [5, 6) and B [0, 10), in this order, B has 0 to 5, A has 5, and 6 to 10 is nobody's; in the other order B has
all but 5. Blocks take no part, and empty ranges are none. What is nobody's has no function in frames; breakpoints and
variables take the innermost function that says it holds the address.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from symd.core import text_layout
from symd.debuginfo.relocation import GAP, LinearLayout
from symd.model.code import CodeObject, Function, Kernel
from symd.model.columns import I64, U32, U64
from symd.model.debug_info import NO_PARENT, DebugInfo, LineRows, RowFlag, Scopes, TextSpans

_MAX_MOVED = 1024
"""Numbers that are moved for one more."""


class _Ascending:
    """Distinct numbers in order, to which others are added, in lists of which none is long."""

    def __init__(self) -> None:
        self._first: list[int] = []
        self._lists: list[list[int]] = []

    def add(self, number: int) -> None:
        """One more."""
        if not self._lists:
            self._first, self._lists = [number], [[number]]
            return
        at = max(bisect_right(self._first, number) - 1, 0)
        held = self._lists[at]
        insort(held, number)
        self._first[at] = held[0]
        if len(held) > _MAX_MOVED:
            self._lists[at : at + 1] = held[: _MAX_MOVED // 2], held[_MAX_MOVED // 2 :]
            self._first.insert(at + 1, self._lists[at + 1][0])

    def last_up_to(self, number: int) -> int | None:
        """The highest that is not above this one."""
        at = bisect_right(self._first, number) - 1
        return self._lists[at][bisect_right(self._lists[at], number) - 1] if at >= 0 else None

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(self._lists)


def disjoint_pieces(ranges: Iterable[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """(start, end, owner) of the pieces, sorted, of ranges (start, end, owner) in the order of the tree."""
    starts = _Ascending()
    held: dict[int, tuple[int, int]] = {}

    def enter(start: int, end: int, owner: int) -> None:
        if start not in held:
            starts.add(start)
        held[start] = end, owner

    for start, end, owner in ranges:
        around = starts.last_up_to(start)
        if around is not None and start < held[around][0]:
            around_end, around_owner = held[around]
            if end < around_end:
                enter(end, around_end, around_owner)
            if start > around:
                held[around] = start, around_owner
        enter(start, end, owner)
    ordered = [*starts]
    for number, start in enumerate(ordered, 1):
        end, owner = held[start]
        yield start, min(end, ordered[number]) if number < len(ordered) else end, owner


Flags = NDArray[np.bool_]
FunctionOrKernel = TypeVar("FunctionOrKernel", Function, Kernel)


class TextRanges(NamedTuple):
    """Stretches of text, section offsets from ``start`` to ``end``: equally long columns."""

    section: U32
    start: U64
    end: U64

    def around(self, section: int, offset: int) -> Flags:
        """For each stretch whether it holds a place."""
        at = np.uint64(offset)
        found: Flags = (self.section == section) & (self.start <= at) & (at < self.end)
        return found

    def holds(self, section: int, offset: int) -> bool:
        return bool(self.around(section, offset).any())

    def meets(self, section: U32, start: U64, end: U64) -> Flags:
        """For each of many stretches whether it shares text with these; an empty one counts as its place."""
        found = np.zeros(len(start), np.bool_)
        for number, first, last in zip(self.section, self.start, self.end, strict=True):
            found |= (section == number) & (start < last) & (end > first)
        return found

    def inside(self, other: TextRanges) -> TextRanges:
        """The stretches that lie in one of ``other`` each; where ``other`` overlaps itself, not all of them."""
        found = np.zeros(len(self.start), np.bool_)
        for number in set(other.section.tolist()):
            mine, theirs = self.section == number, other.section == number
            order = np.argsort(other.start[theirs], kind="stable")
            first, last = other.start[theirs][order], other.end[theirs][order]
            at = np.searchsorted(first, self.start[mine], side="right") - 1
            found[mine] = (at >= 0) & (self.end[mine] <= last[at])
        return TextRanges(self.section[found], self.start[found], self.end[found])


def around(debug: DebugInfo, places: Sequence[tuple[int, int]]) -> TextRanges | None:
    """All text of the outermost functions that hold ``places`` (section numbers, offsets in them) and of what is
    inlined into them. None where a place is in no function, or in several."""
    scopes = debug.scopes
    ranges = TextRanges(scopes.range_section, scopes.range_offset, scopes.range_end)
    outermost = _outermost(scopes)
    owners = set()
    for section, offset in places:
        holders = scopes.range_scope[ranges.around(section, offset)]
        if len({*outermost[holders].tolist()}) != 1 or not (scopes.parent[holders] == NO_PARENT).any():
            return None
        owners.add(int(outermost[holders[0]]))
    wanted = np.zeros(len(scopes), np.bool_)
    wanted[list(owners)] = True
    mine = wanted[outermost[scopes.range_scope]]
    return TextRanges(ranges.section[mine], ranges.start[mine], ranges.end[mine])


def narrowed(
    code: CodeObject, debug: DebugInfo, text: TextRanges, names: Collection[str]
) -> tuple[CodeObject, DebugInfo]:
    """What of a code object and its debug data has to do with ``text``; and the kernels and functions of these
    names."""
    return (
        code._replace(
            kernels=_meeting(code.kernels, text, names),
            functions=_meeting(code.functions, text, names),
        ),
        replace(debug, rows=_rows(debug.rows, text), scopes=_scopes(debug.scopes, text)),
    )


def _outermost(scopes: Scopes) -> I64:
    """The function at the root of each scope's tree. Parents come before children."""
    found = np.arange(len(scopes))
    parent = np.where(scopes.parent == NO_PARENT, found, scopes.parent)
    while True:
        further = parent[found]
        if np.array_equal(further, found):
            return found
        found = parent[further]


def _meeting(
    named: Sequence[FunctionOrKernel], text: TextRanges, names: Collection[str]
) -> tuple[FunctionOrKernel, ...]:
    section = np.array([each.section_index for each in named], np.uint32)
    offset = np.array([each.offset for each in named], np.uint64)
    found = text.meets(section, offset, offset + np.array([each.size for each in named], np.uint64))
    return tuple(each for each, met in zip(named, found.tolist(), strict=True) if met or each.name in names)


def _rows(rows: LineRows, text: TextRanges) -> LineRows:
    """The rows that hold in ``text``; the one after the last of each run ends it."""
    if not len(rows):
        return rows
    closing = (rows.flags & np.uint8(RowFlag.END_SEQUENCE)) != 0
    last = np.append(rows.offset[1:], np.uint64(0))
    kept = ~closing & text.meets(rows.section, rows.offset, last)
    ends = np.append(False, kept[:-1]) & ~kept
    chosen = np.flatnonzero(kept | ends)
    flags = np.where(ends, rows.flags | np.uint8(RowFlag.END_SEQUENCE), rows.flags)[chosen]
    columns = {name: getattr(rows, name)[chosen] for name in ("section", "offset", "file", "line", "column")}
    return LineRows(**columns, flags=flags)


def _scopes(scopes: Scopes, text: TextRanges) -> Scopes:
    """The scopes that have some of ``text``, and those around them."""
    ranges = text.meets(scopes.range_section, scopes.range_offset, scopes.range_end)
    kept = np.zeros(len(scopes), np.bool_)
    inner = scopes.range_scope[ranges]
    while len(inner):
        kept[inner] = True
        inner = scopes.parent[inner]
        inner = inner[inner != NO_PARENT]
        inner = inner[~kept[inner]]
    number = np.cumsum(kept, dtype=np.uint32) - np.uint32(1)
    parent = scopes.parent[kept]
    outer = parent != NO_PARENT
    parent[outer] = number[parent[outer]]
    names = ("name", "linkage_name", "inlined", "call_file", "call_line", "call_column")
    return Scopes(
        parent=parent,
        **{name: getattr(scopes, name)[kept] for name in names},
        range_scope=number[scopes.range_scope[ranges]],
        range_section=scopes.range_section[ranges],
        range_offset=scopes.range_offset[ranges],
        range_end=scopes.range_end[ranges],
        function=None if scopes.function is None else scopes.function[kept],
    )


def section_of(layout: LinearLayout, addresses: U64) -> tuple[U32, U64, NDArray[np.bool_]]:
    """Linear addresses as (section number, offset in it, whether a section holds it).

    A section holds the addresses after it too, up to GAP bytes or the next section.
    """
    section, offset, is_known = text_layout.section_of(layout, GAP, np.ascontiguousarray(addresses).data)
    return np.frombuffer(section, np.uint32), np.frombuffer(offset, np.uint64), np.frombuffer(is_known, np.bool_)


def text_spans(layout: LinearLayout, start: U64, end: U64) -> TextSpans:
    """The text in those of the linear ranges [start, end) that begin in a section, as sections and offsets."""
    if not len(start):
        return TextSpans.empty()
    section, offset, found = section_of(layout, start)
    return TextSpans(section[found], offset[found], (offset + (end - start))[found])
