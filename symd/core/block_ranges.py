# cython: language_level=3, boundscheck=True, wraparound=False
"""The code of the blocks and variables of functions (``symd.core.dies``), as far as it lies outside the functions'
own."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence

import cython

from symd.core.dies import LOCATION_LIST, OTHER_LOCATION
from symd.model.light_typing import Any

if cython.compiled:
    from cython.cimports.symd.core import dies
else:
    from symd.core import dies
if cython.compiled:
    from cython.cimports.symd.core import range_lists
else:
    from symd.core import range_lists


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
    for, by unit, place and the offset of a list, or None. Raises what it raises, Malformed and LimitExceeded."""
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
        for first, last in other(unit, rows.wide_view[dies.WIDE * row + dies.PLACE], offset):
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
