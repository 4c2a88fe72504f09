# cython: language_level=3, boundscheck=True, wraparound=False
"""Which code and which lines are a function's: the code of its blocks and variables (``symd.core.dies``), as far as it
lies outside the function's own, and where its lines end: at the next declaration in the same file of the same unit."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence

import cython

from symd.core.dies import LOCATION_LIST, OTHER_LOCATION
from symd.core.scopes import NO_FUNCTION, NO_PARENT
from symd.model.light_typing import Any

if cython.compiled:
    from cython.cimports.symd.core import dies
else:
    from symd.core import dies
if cython.compiled:
    from cython.cimports.symd.core import range_lists
else:
    from symd.core import range_lists
if cython.compiled:
    from cython.cimports.symd.core import sorting
else:
    from symd.core import sorting


# DW_TAG_ (7.5.3).
_PARAMETER = cython.declare(cython.uint, 0x05)
_BLOCK = cython.declare(cython.uint, 0x0B)
_FUNCTION = cython.declare(cython.uint, 0x2E)
_VARIABLE = cython.declare(cython.uint, 0x34)
TAGS = frozenset((0x05, 0x0B, 0x2E, 0x34))
"""The DIEs that are looked at."""
_LOCATION_LIST = cython.declare(cython.uint, LOCATION_LIST)
_LOCATION = cython.declare(cython.uint, LOCATION_LIST | OTHER_LOCATION)
_NOBODY = cython.declare(cython.longlong, -1)


def outside_of_functions(
    rows: dies.DieRows,
    row_ends: Sequence[int],
    units: Sequence[range_lists.UnitParameters | None],
    locations: range_lists.RangeRows,
    lists: Sequence[bytes],
    other: Callable[[int, int, int | None], Iterable[tuple[int, int]]],
) -> list[list[tuple[int, int]]]:
    """For each object the addresses [start, end) that lie before or behind all of their function's, in order. ``rows``
    are the DIEs of TAGS in some units, and all that have children; ``row_ends`` says how many there are up to the end
    of each object. ``units`` are those whose location lists ``locations`` reads in ``lists``, the section of each
    object; None stands in the place of others: their lists, and locations that are said otherwise, ``other`` is asked
    for, by unit, offset of the DIE and the offset of a list, or None. Raises what it raises, Malformed and
    LimitExceeded."""
    count: cython.Py_ssize_t = rows.count
    owner = cython.declare(cython.longlong[::1])  # the function that each block and variable is in
    own = cython.declare(cython.ulonglong[::1])  # of each function where its code begins and where it ends
    owner, own = array("q", bytes(8 * count)), array("Q", bytes(16 * count))
    which = cython.declare(cython.const[cython.uint][::1])
    start = cython.declare(cython.const[cython.ulonglong][::1])
    stop = cython.declare(cython.const[cython.ulonglong][::1])
    which, start, stop = rows.ranges.which, rows.ranges.start, rows.ranges.stop
    ends = cython.declare(cython.const[cython.longlong][::1])
    ends = array("q", row_ends)
    every: list[list[tuple[int, int]]] = [[] for _ in row_ends]
    number: cython.Py_ssize_t = 0
    opened: cython.Py_ssize_t = -1
    row: cython.Py_ssize_t
    at: cython.Py_ssize_t
    around: cython.uint
    tag: cython.uint
    flags: cython.uint
    unit: cython.uint
    for row in range(count):
        around = rows.narrow_view[dies.NARROW * row + dies.PARENT]
        owner[row] = _NOBODY
        if around:
            tag = rows.narrow_view[dies.NARROW * (around - 1) + dies.TAG]
            owner[row] = around - 1 if tag == _FUNCTION else owner[around - 1] if tag == _BLOCK else _NOBODY
    for at in range(len(which)):
        row = which[at]
        while row >= ends[number]:
            number += 1
        tag = rows.narrow_view[dies.NARROW * row + dies.TAG]
        if tag == _FUNCTION:
            own[2 * row] = min(own[2 * row], start[at]) if own[2 * row + 1] else start[at]
            own[2 * row + 1] = max(own[2 * row + 1], stop[at])
        elif tag == _BLOCK and owner[row] != _NOBODY:  # whose own code was read before
            _add_outside(every[number], own, owner[row], start[at], stop[at])
    number = 0
    for row in range(count):
        while row >= ends[number]:
            number += 1
        tag = rows.narrow_view[dies.NARROW * row + dies.TAG]
        flags = rows.narrow_view[dies.NARROW * row + dies.FLAGS]
        if tag not in (_PARAMETER, _VARIABLE) or owner[row] == _NOBODY or not flags & _LOCATION:
            continue
        unit = rows.narrow_view[dies.NARROW * row + dies.UNIT]
        if flags & _LOCATION_LIST and units[unit] is not None:
            if opened != number:
                locations.open(lists[number], b"", b"")
                opened = number
            locations.read_locations(
                cython.cast(cython.uint, row), rows.wide_view[dies.WIDE * row + dies.LOCATION], units[unit]
            )
            continue
        offset: Any = None
        if flags & _LOCATION_LIST:
            offset = rows.wide_view[dies.WIDE * row + dies.LOCATION]
        for first, last in other(unit, rows.wide_view[dies.WIDE * row + dies.OFFSET], offset):
            _add_outside(every[number], own, owner[row], first, last)
    locations.trim()
    which, start, stop = locations.which, locations.start, locations.stop
    number = 0
    for at in range(len(which)):
        row = which[at]
        while row >= ends[number]:
            number += 1
        _add_outside(every[number], own, owner[row], start[at], stop[at])
    for found in every:
        found.sort()
    return every


@cython.cfunc
@cython.exceptval(-1, check=True)
def _add_outside(
    found: list[tuple[int, int]],
    own: cython.ulonglong[::1],
    function: cython.longlong,
    start: cython.ulonglong,
    stop: cython.ulonglong,
) -> cython.int:
    """Add what of a range lies before and behind its function's code."""
    first: cython.ulonglong = own[2 * function]
    last: cython.ulonglong = own[2 * function + 1]
    if start < first:
        found.append((start, min(stop, first)))
    if stop > last:
        found.append((max(start, last), stop))
    return 0


_NO_PARENT = cython.declare(cython.uint, NO_PARENT)
_NO_FUNCTION = cython.declare(cython.uint, NO_FUNCTION)
NO_END = 0xFFFFFFFF
_NO_END = cython.declare(cython.uint, NO_END)


def line_ends(functions: Any, is_inside: Any, scopes: Any = None) -> array[int]:
    """For each function the line (u32) behind its last one. ``functions`` is the table of functions of
    ``symd.core.scopes.ScopeRows``, and ``is_inside`` tells those that stand inside another function and end none;
    NO_END where no other declaration follows.

    ``scopes`` are the ``ScopeRows`` that the table is of, which have the calls, too; without, all are of one object. A
    function ends behind the last line from which it calls something that was inlined, and a file in which one calls
    from a line before its own has 0 for all of its functions."""
    table = cython.declare(cython.const[cython.uint][::1])
    unit = cython.declare(cython.const[cython.uint][::1])
    file = cython.declare(cython.const[cython.uint][::1])
    line = cython.declare(cython.const[cython.uint][::1])
    inside = cython.declare(cython.const[cython.uchar][::1])
    table, inside = functions, is_inside
    count: cython.Py_ssize_t = len(inside)
    file, line, unit = table[2 * count : 3 * count], table[3 * count : 4 * count], table[4 * count :]
    scratch = cython.declare(cython.uint[::1])
    group = cython.declare(cython.uint[::1])
    last = cython.declare(cython.uint[::1])
    moved = cython.declare(cython.uint[::1])
    keys = cython.declare(cython.ulonglong[::1])
    scratch, keys = memoryview(array("I", bytes(12 * count + 4))), memoryview(array("Q", bytes(16 * count)))
    group, last, moved = scratch[:count], scratch[count : 2 * count], scratch[2 * count :]
    groups: dict[int, int] = {}
    several: cython.uint = 0  # of the objects before this one
    objects = scopes.function_ends if scopes is not None else (count,)
    each: cython.Py_ssize_t
    at: cython.Py_ssize_t = 0
    key: cython.ulonglong
    before: cython.ulonglong = 0
    number: cython.uint = 0
    declared: cython.Py_ssize_t = 0
    stop: cython.Py_ssize_t
    for each in range(len(objects)):
        stop = objects[each]
        if at == stop:
            continue
        several += cython.cast(cython.uint, len(groups))
        groups = {}
        number = 0
        while at < stop:
            key = cython.cast(cython.ulonglong, unit[at]) << 32 | file[at]
            if key != before or not number:
                number = several + groups.setdefault(key, len(groups) + 1)
                before = key
            group[at], last[at] = number, line[at]
            declared += not inside[at]
            at += 1
    if scopes is not None:
        _take_calls(scopes, unit, file, line, group, last, moved)
    places = cython.declare(cython.ulonglong[::1])
    others = cython.declare(cython.ulonglong[::1])
    places, others = keys[:declared], keys[declared : 2 * declared]
    declared = 0
    for at in range(count):
        if not inside[at]:
            places[declared] = cython.cast(cython.ulonglong, group[at]) << 32 | line[at]
            declared += 1
    if sorting.order(places, others):
        places = others
    found = array("I", bytes(4 * count))
    ends = cython.declare(cython.uint[::1])
    ends = found
    following: cython.Py_ssize_t
    for at in range(count):
        if moved[group[at]]:
            continue
        following = sorting.upper_bound(places, cython.cast(cython.ulonglong, group[at]) << 32 | last[at])
        is_same: cython.bint = following < declared and places[following] >> 32 == group[at]
        ends[at] = cython.cast(cython.uint, places[following] & 0xFFFFFFFF) if is_same else _NO_END
    return found


@cython.cfunc
@cython.exceptval(-1, check=True)
def _take_calls(
    scopes: Any,
    unit: cython.const[cython.uint][::1],  # type: ignore[valid-type] # a view, to Cython
    file: cython.const[cython.uint][::1],  # type: ignore[valid-type] # a view, to Cython
    line: cython.const[cython.uint][::1],  # type: ignore[valid-type] # a view, to Cython
    group: cython.uint[::1],
    last: cython.uint[::1],
    moved: cython.uint[::1],
) -> cython.int:
    """Move the ``last`` line of each function behind its calls, and tell the groups in which one calls from before its
    own line."""
    parent = cython.declare(cython.const[cython.uint][::1])
    inlined = cython.declare(cython.const[cython.uchar][::1])
    function = cython.declare(cython.const[cython.uint][::1])
    call_file = cython.declare(cython.const[cython.uint][::1])
    call_line = cython.declare(cython.const[cython.uint][::1])
    call_unit = cython.declare(cython.const[cython.uint][::1])
    table = cython.declare(cython.const[cython.uint][::1])
    table, inlined = scopes.scopes, scopes.inlined
    count: cython.Py_ssize_t = len(inlined)
    parent, call_file, call_line = table[:count], table[3 * count : 4 * count], table[4 * count : 5 * count]
    call_unit, function = table[6 * count : 7 * count], table[7 * count :]
    scope_ends = cython.declare(cython.const[cython.longlong][::1])
    function_ends = cython.declare(cython.const[cython.longlong][::1])
    scope_ends, function_ends = scopes.scope_ends, scopes.function_ends
    each: cython.Py_ssize_t
    scope: cython.Py_ssize_t
    first: cython.Py_ssize_t = 0  # of the object's scopes
    first_function: cython.Py_ssize_t = 0
    caller: cython.Py_ssize_t
    for each in range(len(scope_ends)):
        for scope in range(first, scope_ends[each]):
            if not inlined[scope] or parent[scope] == _NO_PARENT or function[first + parent[scope]] == _NO_FUNCTION:
                continue
            caller = first_function + function[first + parent[scope]]
            if call_file[scope] != file[caller] or call_unit[scope] != unit[caller]:
                continue
            last[caller] = max(last[caller], call_line[scope])
            if call_line[scope] and call_line[scope] < line[caller]:
                moved[group[caller]] = 1
        first, first_function = scope_ends[each], function_ends[each]
    return 0
