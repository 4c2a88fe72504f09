# cython: language_level=3, boundscheck=True, wraparound=False
"""Numbers of 64 bits put in order, and looked for in their order."""

from __future__ import annotations

from array import array

import cython

from symd.model.light_typing import Any


def ranked(keys: Any) -> tuple[array[int], array[int]]:
    """For each number (u64) how many distinct ones are below it (u32), and all distinct ones in ascending order."""
    wanted = cython.declare(cython.const[cython.ulonglong][::1])
    distinct = cython.declare(cython.ulonglong[::1])
    other = cython.declare(cython.ulonglong[::1])
    rank = cython.declare(cython.uint[::1])
    wanted = keys
    count: cython.Py_ssize_t = len(wanted)
    at: cython.Py_ssize_t
    kept: cython.Py_ssize_t = 0
    is_ordered: cython.bint = True
    found = array("Q", bytes(8 * count))
    distinct = memoryview(found)  # a part of an array is a copy where this is not compiled
    for at in range(count):
        if not kept or distinct[kept - 1] != wanted[at]:
            is_ordered = is_ordered and (not kept or distinct[kept - 1] < wanted[at])
            distinct[kept] = wanted[at]
            kept += 1
    if not is_ordered:
        spare = array("Q", bytes(8 * kept))
        other = spare
        if order(distinct[:kept], other):
            distinct, found = other, spare
        some: cython.Py_ssize_t = kept
        kept = 0
        for at in range(some):
            if not kept or distinct[kept - 1] != distinct[at]:
                distinct[kept] = distinct[at]
                kept += 1
    numbers = array("I", bytes(4 * count))
    rank = numbers
    place: cython.Py_ssize_t = 0
    for at in range(count):
        if distinct[place] != wanted[at]:
            place = upper_bound(distinct[:kept], wanted[at]) - 1
        rank[at] = cython.cast(cython.uint, place)
    return numbers, found[:kept]


def ordered(keys: array[int]) -> array[int]:
    """The numbers (u64) in ascending order. What is given may be changed."""
    other = array("Q", keys)
    return other if order(keys, other) else keys


@cython.cfunc
@cython.exceptval(-1, check=True)
def order(some: cython.ulonglong[::1], other: cython.ulonglong[::1]) -> cython.bint:
    """Put numbers in ascending order: sorted runs are merged to runs of twice as many, until there is one. Whether they
    are in ``other`` then, which is as long."""
    count: cython.Py_ssize_t = len(some)
    width: cython.Py_ssize_t = 1
    begin: cython.Py_ssize_t
    middle: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    left: cython.Py_ssize_t
    right: cython.Py_ssize_t
    at: cython.Py_ssize_t
    is_other: cython.bint = False
    while width < count:
        for begin in range(0, count, 2 * width):
            middle, stop = min(begin + width, count), min(begin + 2 * width, count)
            left, right = begin, middle
            for at in range(begin, stop):
                if left < middle and (right >= stop or some[left] <= some[right]):
                    other[at] = some[left]
                    left += 1
                else:
                    other[at] = some[right]
                    right += 1
        some, other = other, some
        is_other = not is_other
        width *= 2
    return is_other


def upper_bounds(numbers: Any, wanted: Any, found: Any) -> None:
    """Write into ``found`` (i64, as long as ``wanted``) how many of ``numbers`` (u64, ascending) are not above each of
    ``wanted`` (u64). Each takes the same steps, whatever it is: to guess which half a number is in, where they come in
    no order, costs a processor more than the steps."""
    cuts = cython.declare(cython.const[cython.ulonglong][::1])
    asked = cython.declare(cython.const[cython.ulonglong][::1])
    count_of = cython.declare(cython.longlong[::1])
    cuts, asked, count_of = numbers, wanted, found
    size: cython.Py_ssize_t = len(cuts)
    value: cython.ulonglong
    first: cython.Py_ssize_t
    left: cython.Py_ssize_t
    half: cython.Py_ssize_t
    at: cython.Py_ssize_t
    for at in range(len(asked)):
        value = asked[at]
        first, left = 0, size
        while left > 0:
            half = (left + 1) // 2
            first += half * (cuts[first + half - 1] <= value)
            left -= half
        count_of[at] = first


_SLOTS = 18
"""Bits of the number of a slot."""
_MIX = cython.declare(cython.ulonglong, 0x9E37_79B9_7F4A_7C15)
"""2^64 divided by the golden ratio, made odd: the high bits of products with it spread what lies close together."""
_ALL_BITS = cython.declare(cython.ulonglong, 0xFFFF_FFFF_FFFF_FFFF)
MAX_DISTINCT = 1 << _SLOTS - 1
"""The most different numbers that ``distinct`` tells apart."""
_TRIED = 1 << 16
"""Numbers after which ``distinct`` ends if most of them were new, and steps it may take beside four for each."""


def distinct(keys: Any, number: Any) -> array[int] | None:
    """The different numbers among ``keys`` (u64) in the order in which they come first, and in ``number`` (u32, as long
    as ``keys``) for each which of them it is. None where they are more than ``MAX_DISTINCT``, where three quarters of
    the first 65,536 differ, so that nothing is gained, or where they were chosen to make this take long."""
    wanted = cython.declare(cython.const[cython.ulonglong][::1])
    which = cython.declare(cython.uint[::1])
    known = cython.declare(cython.ulonglong[::1])
    taken = cython.declare(cython.uint[::1])
    wanted, which = keys, number
    table = array("I", bytes(4 << _SLOTS))
    found = array("Q", bytes(8 * MAX_DISTINCT))
    known, taken = found, table
    value: cython.ulonglong
    at: cython.Py_ssize_t
    slot: cython.Py_ssize_t
    count: cython.Py_ssize_t = 0
    steps: cython.Py_ssize_t = 0
    mask: cython.Py_ssize_t = (1 << _SLOTS) - 1
    shift: cython.int = 64 - _SLOTS
    most: cython.Py_ssize_t = MAX_DISTINCT
    tried: cython.Py_ssize_t = _TRIED
    for at in range(len(wanted)):
        value = wanted[at]
        slot = ((value * _MIX) & _ALL_BITS) >> shift
        while taken[slot] and known[taken[slot] - 1] != value:
            slot = (slot + 1) & mask
            steps += 1
        if steps > 4 * at + tried or (at == tried and 4 * count > 3 * tried):
            return None
        if not taken[slot]:
            if count == most:
                return None
            known[count] = value
            count += 1
            taken[slot] = cython.cast(cython.uint, count)
        which[at] = taken[slot] - 1
    return found[:count]


@cython.cfunc
@cython.exceptval(-1, check=True)
def upper_bound(numbers: cython.const[cython.ulonglong][::1], wanted: cython.ulonglong) -> cython.Py_ssize_t:  # type: ignore[valid-type] # a view, to Cython
    """How many of ``numbers``, which are in ascending order, are not above ``wanted``."""
    low: cython.Py_ssize_t = 0
    high: cython.Py_ssize_t = len(numbers)
    middle: cython.Py_ssize_t
    while low < high:
        middle = (low + high) // 2
        if numbers[middle] <= wanted:
            low = middle + 1
        else:
            high = middle
    return low
