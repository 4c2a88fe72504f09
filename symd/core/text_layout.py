# cython: language_level=3, boundscheck=True, wraparound=False
"""Linear addresses of a code object's text -> sections and offsets in them, and line sequences -> the sections that
they belong to.

A layout is the section numbers (u32), bases and sizes (u64) of the text sections, in the order of their bases; a
section holds the addresses after it, too, up to ``gap`` bytes or the next section."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import cython

from symd.model.light_typing import Any

_U64 = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


def section_of(layout: Sequence[Any], gap: int, addresses: Any) -> tuple[array[int], array[int], bytearray]:
    """``sections_of`` one object."""
    found: tuple[array[int], array[int], bytearray] = sections_of([layout], gap, [addresses])
    return found


def sections_of(
    layouts: Sequence[Sequence[Any]], gap: int, addresses: Sequence[Any]
) -> tuple[array[int], array[int], bytearray]:
    """Three columns for the linear ``addresses`` (u64) of one object after the other: the section of each (u32), the
    offset in it (u64), and whether a section holds it."""
    section = cython.declare(cython.const[cython.uint][::1])
    base = cython.declare(cython.const[cython.ulonglong][::1])
    size = cython.declare(cython.const[cython.ulonglong][::1])
    wanted = cython.declare(cython.const[cython.ulonglong][::1])
    count: cython.Py_ssize_t = 0
    for each in addresses:
        count += len(each)
    numbers, offsets, known = array("I", bytes(4 * count)), array("Q", bytes(8 * count)), bytearray(count)
    number = cython.declare(cython.uint[::1])
    offset = cython.declare(cython.ulonglong[::1])
    is_known = cython.declare(cython.uchar[::1])
    number, offset, is_known = memoryview(numbers), memoryview(offsets), memoryview(known)
    first: cython.Py_ssize_t = 0
    last: cython.Py_ssize_t
    at: cython.Py_ssize_t
    for at in range(len(addresses)):
        wanted = addresses[at]
        last = first + len(wanted)
        if first < last:
            section, base, size = layouts[at]
            _place(section, base, size, gap, wanted, number[first:last], offset[first:last], is_known[first:last])
        first = last
    return numbers, offsets, known


@cython.cfunc
@cython.exceptval(-1, check=True)
def _place(
    section: cython.const[cython.uint][::1],  # type: ignore[valid-type] # a view, to Cython
    base: cython.const[cython.ulonglong][::1],  # type: ignore[valid-type] # a view, to Cython
    size: cython.const[cython.ulonglong][::1],  # type: ignore[valid-type] # a view, to Cython
    behind: cython.ulonglong,
    wanted: cython.const[cython.ulonglong][::1],  # type: ignore[valid-type] # a view, to Cython
    number: cython.uint[::1],
    offset: cython.ulonglong[::1],
    is_known: cython.uchar[::1],
) -> cython.int:
    """Fill in the three columns of ``section_of``."""
    slot: cython.Py_ssize_t = 0
    high: cython.Py_ssize_t
    middle: cython.Py_ssize_t
    last: cython.Py_ssize_t = len(base) - 1
    at: cython.Py_ssize_t
    if last < 0:
        return 0
    for at in range(len(wanted)):
        if wanted[at] < base[slot] or (slot < last and wanted[at] >= base[slot + 1]):  # not where the one before is
            slot, high = 0, last
            while slot < high:
                middle = (slot + high + 1) // 2
                if base[middle] <= wanted[at]:
                    slot = middle
                else:
                    high = middle - 1
        number[at] = section[slot]
        if wanted[at] >= base[slot]:
            offset[at] = wanted[at] - base[slot]
            is_known[at] = offset[at] <= size[slot] or offset[at] - size[slot] <= behind
    return 0


def begin_together(address: Any, ends: Any) -> bool:
    """Whether two line sequences that have code begin at one address. ``address`` (u64) is that of each row, ``ends``
    (i64) the row behind each sequence."""
    addresses = cython.declare(cython.const[cython.ulonglong][::1])
    the_ends = cython.declare(cython.const[cython.longlong][::1])
    addresses, the_ends = address, ends
    seen: set[int] = set()
    with_code = 0
    first: cython.Py_ssize_t = 0
    sequence: cython.Py_ssize_t
    for sequence in range(len(the_ends)):
        if addresses[the_ends[sequence] - 1] > addresses[first]:
            seen.add(addresses[first])
            with_code += 1
        first = the_ends[sequence]
    return len(seen) < with_code


def place_rows(
    layouts: Sequence[Sequence[Any]],
    gap: int,
    address: Sequence[Any],
    ends: Sequence[Any],
    left_out: Sequence[bytes | None],
) -> tuple[array[int], bytearray]:
    """The section (u32) of each line sequence of one object after the other and whether it is kept: it begins in a
    section, and is not left out. The ``address`` (u64) of each row becomes the offset in the section where its sequence
    begins."""
    numbers = cython.declare(cython.const[cython.uint][::1])
    base = cython.declare(cython.const[cython.ulonglong][::1])
    size = cython.declare(cython.const[cython.ulonglong][::1])
    addresses = cython.declare(cython.ulonglong[::1])
    the_ends = cython.declare(cython.const[cython.longlong][::1])
    count: cython.Py_ssize_t = 0
    for each in ends:
        count += len(each)
    places = cython.declare(cython.ulonglong[::1])
    start = cython.declare(cython.ulonglong[::1])
    offset = cython.declare(cython.ulonglong[::1])
    places = memoryview(array("Q", bytes(16 * count)))
    found, is_kept = array("I", bytes(4 * count)), bytearray(count)
    section = cython.declare(cython.uint[::1])
    kept = cython.declare(cython.uchar[::1])
    is_left_out = cython.declare(cython.const[cython.uchar][::1])
    section, kept = memoryview(found), memoryview(is_kept)
    moved: cython.ulonglong
    sequence: cython.Py_ssize_t
    row: cython.Py_ssize_t
    first: cython.Py_ssize_t
    own: cython.Py_ssize_t = 0  # the first sequence of the object
    last: cython.Py_ssize_t
    at: cython.Py_ssize_t
    for at in range(len(ends)):
        the_ends = ends[at]
        if not len(the_ends):
            continue
        numbers, base, size = layouts[at]
        addresses = address[at]
        last = own + len(the_ends)
        start, offset = places[own:last], places[count + own : count + last]
        first = 0
        for sequence in range(len(the_ends)):
            start[sequence] = addresses[first]
            first = the_ends[sequence]
        _place(numbers, base, size, gap, start, section[own:last], offset, kept[own:last])
        if left_out[at] is not None:
            is_left_out = left_out[at]
            for sequence in range(len(the_ends)):
                if is_left_out[sequence]:
                    kept[own + sequence] = False
        first = 0
        for sequence in range(len(the_ends)):
            moved = start[sequence] - offset[sequence]
            for row in range(first, the_ends[sequence]):
                addresses[row] = (addresses[row] - moved) & _U64
            first = the_ends[sequence]
        own = last
    return found, is_kept


def row_at(address: Any, ends: Any, wanted: int) -> tuple[int, int]:
    """(the last row that begins up to an address in the only sequence that holds it, the first row of that sequence),
    of rows as ``begin_together`` has them. (-1, 0) where none does, (-1, -1) where several do or the rows of any are
    not in order."""
    addresses = cython.declare(cython.const[cython.ulonglong][::1])
    the_ends = cython.declare(cython.const[cython.longlong][::1])
    addresses, the_ends = address, ends
    here: cython.ulonglong = wanted
    sequence: cython.Py_ssize_t
    row: cython.Py_ssize_t
    first: cython.Py_ssize_t = 0
    found: cython.Py_ssize_t = -1
    begin: cython.Py_ssize_t = 0
    for sequence in range(len(the_ends)):
        for row in range(first + 1, the_ends[sequence]):
            if addresses[row] < addresses[row - 1]:
                return -1, -1
        if addresses[first] <= here < addresses[the_ends[sequence] - 1]:
            if found >= 0:
                return -1, -1
            begin = first
            for row in range(first, the_ends[sequence]):
                if addresses[row] <= here:
                    found = row
        first = the_ends[sequence]
    return int(found), int(begin)


def overlapping(start: Any, stop: Any, first: int, last: int) -> array[int]:
    """The numbers (u32) of the ranges [start, stop), u64, that have an address of [first, last)."""
    starts = cython.declare(cython.const[cython.ulonglong][::1])
    stops = cython.declare(cython.const[cython.ulonglong][::1])
    starts, stops = start, stop
    begin: cython.ulonglong = first
    end: cython.ulonglong = last
    found = array("I")
    at: cython.Py_ssize_t
    for at in range(len(starts)):
        if starts[at] < end and begin < stops[at]:
            found.append(at)
    return found


def inside(function: int, parent: Sequence[int], range_scope: Any) -> array[int]:
    """The scopes with code in a function or inlined call, itself among them, each as often as it has ranges:
    ``range_scope`` (u32) are those of all ranges. Parents, of which ``parent`` has that of each scope, come before
    children."""
    scopes = cython.declare(cython.const[cython.uint][::1])
    scopes = range_scope
    is_inside = bytearray(len(parent))
    inside_it = cython.declare(cython.uchar[::1])
    inside_it = is_inside
    scope: cython.Py_ssize_t
    around: cython.uint
    at: cython.Py_ssize_t
    if function < len(parent):
        inside_it[function] = True
    for scope in range(function + 1, len(parent)):
        around = parent[scope]
        inside_it[scope] = around < scope and inside_it[around]
    found = array("I")
    for at in range(len(scopes)):
        if inside_it[scopes[at]]:
            found.append(scopes[at])
    return found
