# cython: language_level=3, boundscheck=True, wraparound=False
"""The sweep over a module's text: at every boundary of a row, a scope, a function or a kernel a new piece begins, and
what holds for each piece is found in one pass from the first to the last.

Positions are u64, *points* are distinct positions in order, and a range [start, stop) holds the positions from its
start up to its stop. Text between two of its scopes', kernels' and sections' boundaries is an *area*, of one or more
pieces; entry i of ``begin`` is the first piece of area i. Where something is missing the number is -1."""

from __future__ import annotations

from array import array

import cython

from symd.core.scopes import NO_PARENT

# Numbers of ``symd.model.reasons.Reason``.
EXACT, APPROXIMATE, GAP, DEBUG_DATA_ELSEWHERE = 1, 2, 4, 14
_EXACT = cython.declare(cython.uchar, EXACT)
_APPROXIMATE = cython.declare(cython.uchar, APPROXIMATE)
_GAP = cython.declare(cython.uchar, GAP)
_DEBUG_DATA_ELSEWHERE = cython.declare(cython.uchar, DEBUG_DATA_ELSEWHERE)

_NO_PARENT = cython.declare(cython.uint, NO_PARENT)
MAX_DEPTH = 64
"""Scopes inside so many others count as ranges that do not nest: they are decided one by one."""
_MAX_DEPTH = cython.declare(cython.int, MAX_DEPTH)


@cython.cclass
class _ActiveRanges:
    """The ranges that hold a position, as a heap: that of the highest rank is on top. One that has ended is dropped
    when it comes to the top."""

    _stop = cython.declare(cython.const[cython.ulonglong][::1])
    _number = cython.declare(cython.uint[::1])
    _rank = cython.declare(cython.uint[::1])
    _count = cython.declare(cython.Py_ssize_t)

    def __init__(self, stop: memoryview[int]) -> None:
        self._stop = stop
        self._count = 0
        self._number, self._rank = array("I", bytes(256)), array("I", bytes(256))

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def push(self, number: cython.uint, rank: cython.uint, position: cython.ulonglong) -> cython.int:
        """One more range, which begins at ``position``."""
        at: cython.Py_ssize_t
        above: cython.Py_ssize_t
        self.top(position)  # drops those that have ended, which a new one on top of them would keep
        at = self._count
        if at == cython.cast(cython.Py_ssize_t, len(self._number)):
            numbers, ranks = array("I", self._number), array("I", self._rank)
            numbers.extend(numbers)
            ranks.extend(ranks)
            self._number, self._rank = numbers, ranks
        self._count = at + 1
        while at:
            above = (at - 1) // 2
            if self._rank[above] >= rank:
                break
            self._number[at], self._rank[at] = self._number[above], self._rank[above]
            at = above
        self._number[at], self._rank[at] = number, rank
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _drop(self) -> cython.int:
        """Remove the range on top."""
        last: cython.Py_ssize_t = self._count - 1
        at: cython.Py_ssize_t = 0
        below: cython.Py_ssize_t = 1
        number: cython.uint = self._number[last]
        rank: cython.uint = self._rank[last]
        self._count = last
        while below < last:
            if below + 1 < last and self._rank[below + 1] > self._rank[below]:
                below += 1
            if self._rank[below] <= rank:
                break
            self._number[at], self._rank[at] = self._number[below], self._rank[below]
            at = below
            below = 2 * at + 1
        self._number[at], self._rank[at] = number, rank
        return 0

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def top(self, position: cython.ulonglong) -> cython.int:
        """The number of the range of the highest rank that holds ``position``, or -1. No position is asked for after a
        later one."""
        while self._count and self._stop[self._number[0]] <= position:
            self._drop()
        return cython.cast(cython.int, self._number[0]) if self._count else -1


def covers(
    points: memoryview[int],
    order: memoryview[int],
    start: memoryview[int],
    stop: memoryview[int],
    rank: memoryview[int],
) -> array[int]:
    """For each of ``points`` (u64) the number (i32) of the range of the highest ``rank`` (u32) that holds it. ``order``
    (i64) has the numbers of the ranges in the order of their starts."""
    the_points = cython.declare(cython.const[cython.ulonglong][::1])
    the_order = cython.declare(cython.const[cython.longlong][::1])
    begins = cython.declare(cython.const[cython.ulonglong][::1])
    ends = cython.declare(cython.const[cython.ulonglong][::1])
    ranks = cython.declare(cython.const[cython.uint][::1])
    the_points, the_order, begins, ends, ranks = points, order, start, stop, rank
    found = array("i", bytes(4 * len(points)))
    view = cython.declare(cython.int[::1])
    view = found
    holding: _ActiveRanges = _ActiveRanges(stop)
    at: cython.Py_ssize_t
    begun: cython.Py_ssize_t = 0
    count: cython.Py_ssize_t = len(the_order)
    number: cython.Py_ssize_t
    for at in range(len(the_points)):
        while begun < count and begins[the_order[begun]] <= the_points[at]:
            number = the_order[begun]
            if ends[number] > the_points[at]:
                holding.push(cython.cast(cython.uint, number), ranks[number], the_points[at])
            begun += 1
        view[at] = holding.top(the_points[at])
    return found


def pieces(
    start: memoryview[int],
    stop: memoryview[int],
    order: memoryview[int] | None,
    points: memoryview[int],
    into: tuple[memoryview[int], memoryview[int], memoryview[int]],
) -> int:
    """Write ``into`` three buffers where pieces begin (u64), the number of the row of each (i32), and the first piece
    of each area (i64); how many pieces there are: at most as many as rows and points together, for which there must be
    room. Rows hold [start, stop), u64, and of several that hold a position the last counts; ``order`` (i64) has their
    numbers in the order of their starts, None where that is theirs. Areas begin at ``points`` (u64), among which are
    all ends of rows that are not starts of others."""
    begins = cython.declare(cython.const[cython.ulonglong][::1])
    ends = cython.declare(cython.const[cython.ulonglong][::1])
    the_order = cython.declare(cython.const[cython.longlong][::1])
    the_points = cython.declare(cython.const[cython.ulonglong][::1])
    begins, ends, the_points = start, stop, points
    is_ordered: cython.bint = order is None
    if order is not None:
        the_order = order
    positions = cython.declare(cython.ulonglong[::1])
    rows = cython.declare(cython.int[::1])
    firsts = cython.declare(cython.longlong[::1])
    positions, rows, firsts = into
    holding: _ActiveRanges = _ActiveRanges(stop)
    count: cython.Py_ssize_t = 0
    begun: cython.Py_ssize_t = 0
    area: cython.Py_ssize_t = 0
    number: cython.Py_ssize_t = 0
    # The row that counts, and where it ends; the others that hold a position are in ``holding``.
    top: cython.Py_ssize_t = -1
    until: cython.ulonglong = 0
    other: cython.Py_ssize_t
    here: cython.ulonglong
    while begun < len(begins) or area < len(the_points):
        if begun < len(begins):
            number = begun if is_ordered else the_order[begun]
            here = begins[number]
            if area < len(the_points) and the_points[area] < here:
                here = the_points[area]
        else:
            here = the_points[area]
        if until <= here:
            top = holding.top(here)
            until = ends[top] if top >= 0 else 0
        while begun < len(begins) and begins[number] == here:
            if ends[number] > here:
                if until > here:  # two rows hold what follows
                    other = min(top, number)
                    holding.push(cython.cast(cython.uint, other), cython.cast(cython.uint, other), here)
                if until <= here or number > top:
                    top, until = number, ends[number]
            begun += 1
            if begun < len(begins):
                number = begun if is_ordered else the_order[begun]
        if area < len(the_points) and the_points[area] == here:
            firsts[area] = count
            area += 1
        positions[count] = here
        rows[count] = cython.cast(cython.int, top)
        count += 1
    return int(count)


@cython.cfunc
@cython.exceptval(-1, check=True)
def _point(
    points: cython.const[cython.ulonglong][::1],  # type: ignore[valid-type] # a view, to Cython
    position: cython.ulonglong,
    near: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """The number of the first point that is not before ``position``; it is looked for from the point ``near`` on."""
    low: cython.Py_ssize_t = near
    high: cython.Py_ssize_t = len(points)
    step: cython.Py_ssize_t = 1
    middle: cython.Py_ssize_t
    if near < high and points[near] >= position:
        if not near or points[near - 1] < position:
            return near
        low, high = 0, near
    while low + step < high and points[low + step] < position:
        low += step
        step *= 2
    high = min(high, low + step)
    while low < high:
        middle = (low + high) // 2
        if points[middle] < position:
            low = middle + 1
        else:
            high = middle
    return low


def point_numbers(points: memoryview[int], positions: memoryview[int]) -> array[int]:
    """For each of ``positions`` (u64), which are points, the number (i32) of it among ``points`` (u64)."""
    the_points = cython.declare(cython.const[cython.ulonglong][::1])
    the_positions = cython.declare(cython.const[cython.ulonglong][::1])
    the_points, the_positions = points, positions
    found = array("i", bytes(4 * len(positions)))
    numbers = cython.declare(cython.int[::1])
    numbers = found
    at: cython.Py_ssize_t
    near: cython.Py_ssize_t = 0
    for at in range(len(the_positions)):
        near = _point(the_points, the_positions[at], near)
        numbers[at] = cython.cast(cython.int, near)
    return found


def levels(parent: memoryview[int]) -> array[int]:
    """For each scope (u32: the number of its parent, or NO_PARENT) how many are around it (u8), at most MAX_DEPTH."""
    parents = cython.declare(cython.const[cython.uint][::1])
    parents = parent
    found = array("B", bytes(len(parent)))
    level = cython.declare(cython.uchar[::1])
    level = found
    scope: cython.Py_ssize_t
    around: cython.uint
    depth: cython.int
    for scope in range(len(parents)):
        around, depth = parents[scope], 0
        while around != _NO_PARENT and depth < _MAX_DEPTH:
            depth += 1
            if around < scope:  # it was counted before
                depth += level[around]
                break
            around = parents[around]
        level[scope] = cython.cast(cython.uchar, min(_MAX_DEPTH, depth))
    return found


def innermost(
    count: int,
    order: memoryview[int],
    begin: memoryview[int],
    stop: memoryview[int],
    scope: memoryview[int],
    parent: memoryview[int],
) -> tuple[array[int], bytearray, bool]:
    """Find the innermost scope that holds each of ``count`` points.

    ``begin`` and ``stop`` (i32) are the points [begin, stop) of each range, of which there is at least one. ``scope``
    (u32) is the scope of each range, ``parent`` (u32) the parent of each scope, or NO_PARENT. ``order`` (i64) has the
    numbers of the ranges in the order in which they begin.

    Returns three things: the number of the scope at each point (i32); for each range whether it fails to nest as its
    scope does; whether any fails. In a range that fails, and in the ranges that overlap it, the numbers do not hold:
    the caller has to find them in another way."""
    the_order = cython.declare(cython.const[cython.longlong][::1])
    begins = cython.declare(cython.const[cython.int][::1])
    stops = cython.declare(cython.const[cython.int][::1])
    scopes = cython.declare(cython.const[cython.uint][::1])
    parents = cython.declare(cython.const[cython.uint][::1])
    level = cython.declare(cython.const[cython.uchar][::1])
    the_order, begins, stops, scopes, parents = order, begin, stop, scope, parent
    level = levels(parent)
    found = array("i", b"\xff" * (4 * count))
    wrong = bytearray(len(order))
    holders = cython.declare(cython.int[::1])
    wrongs = cython.declare(cython.uchar[::1])
    holders, wrongs = found, wrong
    # The ranges of each level, one level after the other.
    firsts = array("q", bytes(8 * (MAX_DEPTH + 2)))
    first = cython.declare(cython.longlong[::1])
    first = firsts
    sorted_ranges = array("q", bytes(8 * len(order)))
    ranges = cython.declare(cython.longlong[::1])
    ranges = sorted_ranges
    at: cython.Py_ssize_t
    which: cython.Py_ssize_t
    before: cython.Py_ssize_t
    point: cython.Py_ssize_t
    depth: cython.Py_ssize_t
    reach: cython.int
    around: cython.int
    is_wrong: cython.bint = False
    for at in range(len(the_order)):
        first[level[scopes[at]] + 1] += 1
    for depth in range(MAX_DEPTH + 1):
        first[depth + 1] += first[depth]
    for at in range(len(the_order)):
        depth = level[scopes[the_order[at]]]
        ranges[first[depth]] = the_order[at]
        first[depth] += 1  # it is where the next level begins when all are told
    for depth in range(MAX_DEPTH):
        before = -1
        for at in range(first[depth - 1] if depth else 0, first[depth]):
            which = ranges[at]
            if before >= 0 and stops[before] > begins[which]:
                wrongs[before] = is_wrong = True
            if depth:
                around = cython.cast(cython.int, parents[scopes[which]])
                if holders[begins[which]] != around or holders[stops[which] - 1] != around:
                    wrongs[which] = is_wrong = True
            before = which
        reach = 0
        for at in range(first[depth - 1] if depth else 0, first[depth]):
            which = ranges[at]
            for point in range(max(reach, begins[which]), stops[which]):
                holders[point] = cython.cast(cython.int, scopes[which])
            reach = max(reach, stops[which])
    for at in range(first[MAX_DEPTH - 1], first[MAX_DEPTH]):
        wrongs[ranges[at]] = is_wrong = True
    return found, wrong, is_wrong


def suspect_rows(
    row: memoryview[int],
    area: memoryview[int],
    line: memoryview[int],
    file: memoryview[int],
    of_areas: tuple[memoryview[int], ...],
) -> array[int]:
    """The first piece, and the one behind the last, of each row in which something may not fit, i64, one pair after the
    other: it begins with a line that the function there cannot have, or lies in several scopes, or where functions
    contradict each other. ``row`` and ``area`` (i32) are those of each piece, ``line`` and ``file`` (u32) those of each
    row. ``of_areas`` are of each area the scope (i32), whether it lies in a kernel, is machine code, and torn between
    functions (u8), and the lines [first, end) and the file that its function can have (u32; an end of 0: unknown)."""
    rows = cython.declare(cython.const[cython.int][::1])
    areas = cython.declare(cython.const[cython.int][::1])
    lines = cython.declare(cython.const[cython.uint][::1])
    files = cython.declare(cython.const[cython.uint][::1])
    scope = cython.declare(cython.const[cython.int][::1])
    in_kernel = cython.declare(cython.const[cython.uchar][::1])
    is_code = cython.declare(cython.const[cython.uchar][::1])
    torn = cython.declare(cython.const[cython.uchar][::1])
    first_line = cython.declare(cython.const[cython.uint][::1])
    end_line = cython.declare(cython.const[cython.uint][::1])
    own_file = cython.declare(cython.const[cython.uint][::1])
    rows, areas, lines, files = row, area, line, file
    scope, in_kernel, is_code, torn, first_line, end_line, own_file = of_areas
    found = array("q")
    begin: cython.Py_ssize_t = 0
    stop: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t
    home: cython.Py_ssize_t
    here: cython.Py_ssize_t
    number: cython.Py_ssize_t
    its_line: cython.uint
    is_suspect: cython.bint
    while stop < len(rows):
        begin = stop
        number = rows[begin]
        stop += 1
        while stop < len(rows) and rows[stop] == number:
            stop += 1
        home = areas[begin]
        its_line = lines[number] if number >= 0 else 0
        if not its_line or not is_code[home]:
            continue
        is_suspect = torn[home] or (
            end_line[home]
            and (its_line < first_line[home] or its_line >= end_line[home] or files[number] != own_file[home])
        )
        for at in range(begin + 1, stop):
            here = areas[at]
            if torn[here] or (scope[here] != scope[home] and (scope[here] >= 0 or in_kernel[here])):
                is_suspect = True
        if is_suspect:
            found.append(begin)
            found.append(stop)
    return found


def fill(
    row: memoryview[int],
    begin: memoryview[int],
    of_areas: tuple[memoryview[int], ...],
    groups: int,
    line_of_row: memoryview[int],
    into: tuple[memoryview[int], memoryview[int]],
) -> None:
    """Write ``into`` two buffers the line (u32) and the reason (u8) of each piece; the first area begins at piece 0.
    ``row`` (i32) is that of each piece, and becomes the one that answers. ``of_areas`` are of each area the group (u32,
    below ``groups``), of which an earlier row may stand for one without a line, the reason where a row has no line, the
    one where there is no row, and whether its debug data is elsewhere (u8). ``line_of_row`` (u32) is 0 where a row has
    none."""
    rows = cython.declare(cython.int[::1])
    first = cython.declare(cython.const[cython.longlong][::1])
    group = cython.declare(cython.const[cython.uint][::1])
    bare = cython.declare(cython.const[cython.uchar][::1])
    missing = cython.declare(cython.const[cython.uchar][::1])
    elsewhere = cython.declare(cython.const[cython.uchar][::1])
    row_line = cython.declare(cython.const[cython.uint][::1])
    rows, first, row_line = row, begin, line_of_row
    group, bare, missing, elsewhere = of_areas
    count: cython.Py_ssize_t = len(rows)
    lines = cython.declare(cython.uint[::1])
    reasons = cython.declare(cython.uchar[::1])
    lines, reasons = into
    lined = array("i", b"\xff" * (4 * groups))
    last_with_line = cython.declare(cython.int[::1])
    last_with_line = lined
    area: cython.Py_ssize_t
    at: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    number: cython.Py_ssize_t
    its_group: cython.Py_ssize_t
    why: cython.uchar
    for area in range(len(first)):
        its_group = group[area]
        stop = first[area + 1] if area + 1 < len(first) else count
        for at in range(first[area], stop):
            number = rows[at]
            if number >= 0 and row_line[number]:
                last_with_line[its_group] = cython.cast(cython.int, number)
                why = _EXACT
            elif number >= 0 and last_with_line[its_group] >= 0:
                number = last_with_line[its_group]
                why = _APPROXIMATE
            else:
                why = bare[area] if number >= 0 else missing[area]
                if why == _GAP:
                    number = -1
            lines[at] = row_line[number] if number >= 0 else 0
            rows[at] = cython.cast(cython.int, number)
            reasons[at] = _DEBUG_DATA_ELSEWHERE if elsewhere[area] else why
