# cython: language_level=3, boundscheck=True, wraparound=False
"""How far line rows reach, whose they are by the symbols of functions, and the ranges of nested scopes out of spans of
code that say which scope is the innermost one in them."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

import cython

from symd.core.scopes import NO_PARENT
from symd.core.sorting import ordered, ranked
from symd.model.light_typing import Any

if cython.compiled:
    from cython.cimports.symd.core import sorting
else:
    from symd.core import sorting


_U64 = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
_ENDS = cython.declare(cython.uchar, 4)
"""``symd.model.debug_info.RowFlag.END_SEQUENCE``."""
_OFFSET_BITS = cython.declare(cython.int, 44)
_LAST_OFFSET = cython.declare(cython.ulonglong, (1 << 44) - 1)


def row_extents(
    sections: Any, offsets: Any, flags: Any, functions: Sequence[Any]
) -> tuple[array[int], array[int], array[int]]:
    """Where rows end (u64), the number of the smallest function around each (i32), or -1, and the order of those that
    have code by their places (u32). A row ends with the next row, or where another function symbol begins, of whose
    code it says nothing. ``functions`` are ``symd.model.code.Function``."""
    section = cython.declare(cython.const[cython.uint][::1])
    offset = cython.declare(cython.const[cython.ulonglong][::1])
    section, offset = sections, offsets
    row: cython.Py_ssize_t
    places = array("Q", bytes(8 * len(offset)))
    place = cython.declare(cython.ulonglong[::1])
    place = places
    for row in range(len(offset)):
        place[row] = _place(section[row], offset[row])
    ranks, distinct = ranked(places)
    begins = [_place(each.section_index, each.offset) for each in functions]
    stops = [_place(each.section_index, each.offset + each.size & 0xFFFFFFFFFFFFFFFF) for each in functions]
    ends = _ends_of_rows(place, offset, flags, ordered(array("Q", begins)))
    painted = _smallest(distinct, begins, stops, [each.size for each in functions])
    return ends, _of_ranks(ranks, painted), _in_order(ranks, offset, ends)


@cython.cfunc
@cython.exceptval(-1, check=True)
def _place(section: cython.ulonglong, offset: cython.ulonglong) -> cython.ulonglong:
    """Section and offset as one number that sorts like the pair."""
    return section << _OFFSET_BITS & _U64 | min(offset, _LAST_OFFSET)


@cython.cfunc
def _ends_of_rows(
    place: cython.ulonglong[::1],
    offset: cython.const[cython.ulonglong][::1],  # type: ignore[valid-type] # a view, to Cython
    flags: Any,
    begins: array[int],
) -> array[int]:
    flag = cython.declare(cython.const[cython.uchar][::1])
    begin = cython.declare(cython.const[cython.ulonglong][::1])
    end = cython.declare(cython.ulonglong[::1])
    count: cython.Py_ssize_t = len(place)
    ends = array("Q", bytes(8 * count))
    flag, begin, end = flags, begins, ends
    row: cython.Py_ssize_t
    following: cython.Py_ssize_t = 0
    after: cython.ulonglong
    for row in range(count):
        if flag[row] & _ENDS:
            end[row] = offset[row]
        elif row + 1 < count:
            end[row] = offset[row + 1]
        if not len(begin):
            continue
        if row and place[row] < place[row - 1]:
            following = sorting.upper_bound(begin, place[row])
        while following < len(begin) and begin[following] <= place[row]:
            following += 1
        after = begin[following] if following < len(begin) else _U64
        end[row] = min(end[row], (offset[row] + (after - place[row])) & _U64)
    return ends


@cython.cfunc
def _smallest(places: array[int], begins: list[int], stops: list[int], sizes: list[int]) -> array[int]:
    """For each of ``places``, which are in order, the number of the smallest function that holds it, or -1: that takes
    its places first, and each larger one what is left."""
    place = cython.declare(cython.const[cython.ulonglong][::1])
    painted = cython.declare(cython.int[::1])
    free = cython.declare(cython.uint[::1])
    place = places
    count: cython.Py_ssize_t = len(place)
    found = array("i", bytes(4 * count))
    painted, free = found, array("I", bytes(4 * (count + 1)))  # the next free place, or one on the way to it
    at: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    for at in range(count):
        painted[at] = -1
    for at in range(count + 1):
        free[at] = cython.cast(cython.uint, at)
    for number in sorted(range(len(sizes)), key=sizes.__getitem__):
        at, stop = _first_from(place, begins[number]), _first_from(place, stops[number])
        while True:
            while free[at] != at:
                free[at] = free[free[at]]
                at = free[at]
            if at >= stop:
                break
            painted[at] = number
            free[at] = cython.cast(cython.uint, at + 1)
    return found


@cython.cfunc
@cython.exceptval(-1, check=True)
def _first_from(places: cython.const[cython.ulonglong][::1], wanted: cython.ulonglong) -> cython.Py_ssize_t:  # type: ignore[valid-type] # a view, to Cython
    """How many are before this one."""
    return sorting.upper_bound(places, wanted - 1) if wanted else 0


@cython.cfunc
def _of_ranks(ranks: array[int], of_places: array[int]) -> array[int]:
    rank = cython.declare(cython.const[cython.uint][::1])
    known = cython.declare(cython.const[cython.int][::1])
    number = cython.declare(cython.int[::1])
    numbers = array("i", bytes(4 * len(ranks)))
    rank, known, number = ranks, of_places, numbers
    row: cython.Py_ssize_t
    for row in range(len(rank)):
        number[row] = known[rank[row]]
    return numbers


@cython.cfunc
def _in_order(ranks: array[int], offset: cython.const[cython.ulonglong][::1], ends: array[int]) -> array[int]:  # type: ignore[valid-type] # a view, to Cython
    """The rows that have code, by their places."""
    rank = cython.declare(cython.const[cython.uint][::1])
    end = cython.declare(cython.const[cython.ulonglong][::1])
    key = cython.declare(cython.ulonglong[::1])
    found = cython.declare(cython.uint[::1])
    keys = array("Q", bytes(8 * len(ranks)))
    rank, end, key = ranks, ends, keys
    row: cython.Py_ssize_t
    kept: cython.Py_ssize_t = 0
    is_ordered: cython.bint = True
    for row in range(len(rank)):
        if end[row] > offset[row]:
            key[kept] = cython.cast(cython.ulonglong, rank[row]) << 32 | row
            is_ordered = is_ordered and (not kept or key[kept - 1] < key[kept])
            kept += 1
    rows = array("I", bytes(4 * kept))
    found = rows
    if not is_ordered:
        key = ordered(keys[:kept])
    for row in range(kept):
        found[row] = cython.cast(cython.uint, key[row] & 0xFFFFFFFF)
    return rows


def row_pieces(
    rows: tuple[Any, ...], assembly: Sequence[Any] | None
) -> tuple[array[int], array[int], array[int], array[int]]:
    """Code of one row and, in an inline assembly, of one shift: numbers of rows (u32), begins and ends (u64), and
    shifts (i64), 0 outside of assemblies.

    ``rows`` are sections (u32), begins and ends (u64), and the order of those that have code (u32); ``assembly`` is
    ``symd.debuginfo.rows_alone.AssemblyRows``."""
    if assembly is not None and len(assembly[0]):
        cut: tuple[array[int], array[int], array[int], array[int]] = _cut_pieces(rows, assembly)
        return cut
    start = cython.declare(cython.const[cython.ulonglong][::1])
    end = cython.declare(cython.const[cython.ulonglong][::1])
    order = cython.declare(cython.const[cython.uint][::1])
    begin = cython.declare(cython.ulonglong[::1])
    stop = cython.declare(cython.ulonglong[::1])
    _, start, end, order = rows
    nothing = bytes(8 * len(order))
    numbers, begins, stops = array("I", order), array("Q", nothing), array("Q", nothing)
    begin, stop = begins, stops
    at: cython.Py_ssize_t
    for at in range(len(order)):
        begin[at], stop[at] = start[order[at]], end[order[at]]
    return numbers, begins, stops, array("q", nothing)


@cython.cfunc
def _cut_pieces(
    rows: tuple[Any, ...], assembly: Sequence[Any]
) -> tuple[array[int], array[int], array[int], array[int]]:
    """Where rows overlap, the one that begins last has the code."""
    section = cython.declare(cython.const[cython.uint][::1])
    start = cython.declare(cython.const[cython.ulonglong][::1])
    end = cython.declare(cython.const[cython.ulonglong][::1])
    order = cython.declare(cython.const[cython.uint][::1])
    of_code = cython.declare(cython.const[cython.uint][::1])
    first = cython.declare(cython.const[cython.ulonglong][::1])
    last = cython.declare(cython.const[cython.ulonglong][::1])
    shift = cython.declare(cython.const[cython.longlong][::1])
    edge = cython.declare(cython.ulonglong[::1])
    begin = cython.declare(cython.ulonglong[::1])
    stop = cython.declare(cython.ulonglong[::1])
    shifted = cython.declare(cython.longlong[::1])
    number = cython.declare(cython.uint[::1])
    section, start, end, order = rows
    of_code, first, last, shift = assembly
    edges = array("Q", bytes(16 * (len(order) + len(shift))))
    edge = edges
    at: cython.Py_ssize_t
    row: cython.Py_ssize_t
    kept: cython.Py_ssize_t = 0
    for at in range(len(shift)):
        edge[kept], edge[kept + 1] = _place(of_code[at], first[at]), _place(of_code[at], last[at])
        kept += 2
    for at in range(len(order)):
        row = order[at]
        edge[kept], edge[kept + 1] = _place(section[row], start[row]), _place(section[row], end[row])
        kept += 2
    _, edges = ranked(edges)
    edge = edges
    nothing = bytes(8 * len(edge))
    numbers, begins, stops, shifts = array("I", nothing), array("Q", nothing), array("Q", nothing), array("q", nothing)
    number, begin, stop, shifted = numbers, begins, stops, shifts
    held: cython.Py_ssize_t = 0  # how many rows begin up to an edge, and how many assemblies
    code: cython.Py_ssize_t = 0
    base: cython.ulonglong
    kept = 0
    for at in range(len(edge) - 1):
        while held < len(order) and _place(section[order[held]], start[order[held]]) <= edge[at]:
            held += 1
        while code < len(shift) and _place(of_code[code], first[code]) <= edge[at]:
            code += 1
        row = order[held - 1] if held else -1
        if row < 0 or edge[at] >= _place(section[row], end[row]):
            continue
        base = _place(section[row], 0)
        number[kept] = cython.cast(cython.uint, row)
        begin[kept], stop[kept] = edge[at] - base, edge[at + 1] - base
        if code and edge[at] < _place(of_code[code - 1], last[code - 1]):
            shifted[kept] = shift[code - 1]
        kept += 1
    return numbers[:kept], begins[:kept], stops[:kept], shifts[:kept]


_NO_PARENT = cython.declare(cython.uint, NO_PARENT)
_AT_ONCE = cython.declare(cython.Py_ssize_t, 1024)
"""Ranges that are asked for together."""


def scope_ranges(
    parents: array[int], rows: tuple[Any, ...], spend: Callable[[int], object]
) -> tuple[array[int], array[int], array[int], array[int]]:
    """The scopes (u32), sections (u32), begins and ends (u64) of ranges, scope by scope: each row's span for its scope
    and every scope around, neighbors joined.

    ``parents`` (u32) are the scopes around scopes, which come first. ``rows`` are sections (u32), begins and ends
    (u64), the order of those that have code by their places (u32), and the innermost scope of each (i32), or -1.
    ``spend`` is told how many ranges are about to be made, and may raise."""
    parent = cython.declare(cython.const[cython.uint][::1])
    parent = parents
    count: cython.Py_ssize_t = len(parent)
    scope: cython.Py_ssize_t
    sweep = _Sweep()
    sweep.around, sweep.depth = array("I", bytes(4 * (count + 1))), array("I", bytes(4 * (count + 1)))
    sweep.begun, sweep.closed = array("Q", bytes(8 * (count + 1))), array("q", bytes(8 * (count + 1)))
    sweep.scope, sweep.section, sweep.offset, sweep.end = array("I"), array("I"), array("Q"), array("Q")
    for scope in range(count):
        if parent[scope] != _NO_PARENT:
            sweep.around[scope + 1] = parent[scope] + 1
        sweep.depth[scope + 1] = sweep.depth[sweep.around[scope + 1]] + 1
    sweep.walk(rows, spend)
    total: cython.longlong = 0
    closed: cython.longlong
    for scope in range(count + 1):
        closed = sweep.closed[scope]
        sweep.closed[scope] = total
        total += closed
    scopes, sections = array("I", bytes(4 * total)), array("I", bytes(4 * total))
    offsets, ends = array("Q", bytes(8 * total)), array("Q", bytes(8 * total))
    if total:
        sweep.scope, sweep.section, sweep.offset, sweep.end = scopes, sections, offsets, ends
        sweep.walk(rows, spend)
    return scopes, sections, offsets, ends


@cython.cclass
class _Sweep:
    """The walk over rows in the order of their places, with the scopes that are open at each. Number 0 stands for no
    scope, and scopes count from 1."""

    around = cython.declare(cython.uint[::1])
    depth = cython.declare(cython.uint[::1])
    begun = cython.declare(cython.ulonglong[::1])
    """Where the open range of each scope began."""
    closed = cython.declare(cython.longlong[::1])
    """How many ranges of each scope were closed, or where the next one goes."""
    scope = cython.declare(cython.uint[::1])
    section = cython.declare(cython.uint[::1])
    offset = cython.declare(cython.ulonglong[::1])
    end = cython.declare(cython.ulonglong[::1])

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def walk(self, rows: tuple[Any, ...], spend: Callable[[int], object]) -> cython.int:
        """Close the ranges of all scopes: they are counted, or put down where there is a column for them. ``spend`` is
        told how many are opened."""
        sections = cython.declare(cython.const[cython.uint][::1])
        offsets = cython.declare(cython.const[cython.ulonglong][::1])
        ends = cython.declare(cython.const[cython.ulonglong][::1])
        order = cython.declare(cython.const[cython.uint][::1])
        of_row = cython.declare(cython.const[cython.int][::1])
        sections, offsets, ends, order, of_row = rows
        inner: cython.uint = 0
        one: cython.uint
        other: cython.uint
        section: cython.uint = 0
        end: cython.ulonglong = 0
        at: cython.Py_ssize_t
        row: cython.Py_ssize_t
        opened: cython.Py_ssize_t = 0
        is_counting: cython.bint = len(self.scope) == 0
        for at in range(len(order)):
            row = order[at]
            one, other = inner, cython.cast(cython.uint, of_row[row] + 1)
            if section != sections[row] or end != offsets[row]:
                self._close(one, 0, section, end, is_counting)
                one = 0
            inner = other
            while one != other:
                if self.depth[one] >= self.depth[other]:
                    self._close(one, self.around[one], section, end, is_counting)
                    one = self.around[one]
                else:
                    self.begun[other] = offsets[row]
                    other = self.around[other]
                    opened += 1
            if opened >= _AT_ONCE and is_counting:
                spend(opened)
                opened = 0
            section, end = sections[row], ends[row]
        self._close(inner, 0, section, end, is_counting)
        if is_counting:
            spend(opened)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _close(
        self,
        scope: cython.uint,
        outer: cython.uint,
        section: cython.uint,
        end: cython.ulonglong,
        is_counting: cython.bint,
    ) -> cython.int:
        """End the ranges of a scope and those around it up to ``outer``."""
        at: cython.Py_ssize_t
        while scope != outer:
            at = self.closed[scope]
            self.closed[scope] += 1
            if not is_counting:
                self.scope[at], self.section[at] = scope - 1, section
                self.offset[at], self.end[at] = self.begun[scope], end
            scope = self.around[scope]
        return 0
