# cython: language_level=3, boundscheck=True, wraparound=False
"""Where the lines of functions end: at the next declaration in the same file of the same unit."""

from __future__ import annotations

from array import array

import cython

from symd.core.sorting import ordered
from symd.model.light_typing import Any

if cython.compiled:
    from cython.cimports.symd.core import sorting
else:
    from symd.core import sorting


_NO_PARENT = cython.declare(cython.uint, 0xFFFFFFFF)
_NO_FUNCTION = cython.declare(cython.uint, 0xFFFFFFFF)
NO_END = 0xFFFFFFFF
_NO_END = cython.declare(cython.uint, NO_END)


def line_ends(functions: tuple[Any, ...], is_inside: bytes, calls: tuple[Any, ...] | None = None) -> array[int]:
    """For each function the line (u32) behind its last one. ``functions`` are the unit, file and line (u32) of each
    declaration, and ``is_inside`` tells those that stand inside another function and end none; NO_END where no other
    declaration follows.

    ``calls`` are of each scope the parent, whether it is inlined (u8), its function, call file, call line and unit
    (u32): a function ends behind the last line from which it calls something that was inlined, and a file in which one
    calls from a line before its own has 0 for all of its functions."""
    unit = cython.declare(cython.const[cython.uint][::1])
    file = cython.declare(cython.const[cython.uint][::1])
    line = cython.declare(cython.const[cython.uint][::1])
    inside = cython.declare(cython.const[cython.uchar][::1])
    unit, file, line = functions
    inside = is_inside
    count: cython.Py_ssize_t = len(line)
    room = cython.declare(cython.uint[::1])
    group = cython.declare(cython.uint[::1])
    last = cython.declare(cython.uint[::1])
    room = memoryview(array("I", bytes(8 * count)))
    group, last = room[:count], room[count:]
    groups: dict[int, int] = {}
    at: cython.Py_ssize_t
    key: cython.ulonglong
    before: cython.ulonglong = 0
    number: cython.uint = 0
    declared: cython.Py_ssize_t = 0
    for at in range(count):
        key = cython.cast(cython.ulonglong, unit[at]) << 32 | file[at]
        if key != before or not number:
            number = groups.setdefault(key, len(groups) + 1)
            before = key
        group[at], last[at] = number, line[at]
        declared += not inside[at]
    is_moved = cython.declare(cython.uchar[::1])
    is_moved = bytearray(len(groups) + 1)
    if calls is not None:
        _take_calls(calls, unit, file, line, group, last, is_moved)
    keys = array("Q", bytes(8 * declared))
    places = cython.declare(cython.ulonglong[::1])
    places = keys
    declared = 0
    for at in range(count):
        if not inside[at]:
            places[declared] = cython.cast(cython.ulonglong, group[at]) << 32 | line[at]
            declared += 1
    declared_places = cython.declare(cython.const[cython.ulonglong][::1])
    declared_places = ordered(keys)
    found = array("I", bytes(4 * count))
    ends = cython.declare(cython.uint[::1])
    ends = found
    following: cython.Py_ssize_t
    for at in range(count):
        if is_moved[group[at]]:
            continue
        following = sorting.upper_bound(declared_places, cython.cast(cython.ulonglong, group[at]) << 32 | last[at])
        is_same: cython.bint = following < declared and declared_places[following] >> 32 == group[at]
        ends[at] = cython.cast(cython.uint, declared_places[following] & 0xFFFFFFFF) if is_same else _NO_END
    return found


@cython.cfunc
@cython.exceptval(-1, check=True)
def _take_calls(
    calls: tuple[Any, ...],
    unit: cython.const[cython.uint][::1],  # type: ignore[valid-type] # a view, to Cython
    file: cython.const[cython.uint][::1],  # type: ignore[valid-type] # a view, to Cython
    line: cython.const[cython.uint][::1],  # type: ignore[valid-type] # a view, to Cython
    group: cython.uint[::1],
    last: cython.uint[::1],
    is_moved: cython.uchar[::1],
) -> cython.int:
    """Move the ``last`` line of each function behind its calls, and tell the groups in which one calls from before its
    own line."""
    parent = cython.declare(cython.const[cython.uint][::1])
    inlined = cython.declare(cython.const[cython.uchar][::1])
    function = cython.declare(cython.const[cython.uint][::1])
    call_file = cython.declare(cython.const[cython.uint][::1])
    call_line = cython.declare(cython.const[cython.uint][::1])
    call_unit = cython.declare(cython.const[cython.uint][::1])
    parent, inlined, function, call_file, call_line, call_unit = calls
    scope: cython.Py_ssize_t
    caller: cython.uint
    for scope in range(len(parent)):
        if not inlined[scope] or parent[scope] == _NO_PARENT:
            continue
        caller = function[parent[scope]]
        if caller == _NO_FUNCTION or call_file[scope] != file[caller] or call_unit[scope] != unit[caller]:
            continue
        last[caller] = max(last[caller], call_line[scope])
        if call_line[scope] and call_line[scope] < line[caller]:
            is_moved[group[caller]] = True
    return 0
