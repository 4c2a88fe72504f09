# cython: language_level=3, boundscheck=True, wraparound=False
"""Where the lines of functions end: at the next declaration in the same file of the same unit."""

from __future__ import annotations

from array import array

import cython

from symd.model.light_typing import Any

if cython.compiled:
    from cython.cimports.symd.core import sorting
else:
    from symd.core import sorting


_NO_PARENT = cython.declare(cython.uint, 0xFFFFFFFF)
_NO_FUNCTION = cython.declare(cython.uint, 0xFFFFFFFF)
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
    room = cython.declare(cython.uint[::1])
    group = cython.declare(cython.uint[::1])
    last = cython.declare(cython.uint[::1])
    moved = cython.declare(cython.uint[::1])
    keys = cython.declare(cython.ulonglong[::1])
    room, keys = memoryview(array("I", bytes(12 * count + 4))), memoryview(array("Q", bytes(16 * count)))
    group, last, moved = room[:count], room[count : 2 * count], room[2 * count :]
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
