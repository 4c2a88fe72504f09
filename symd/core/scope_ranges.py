# cython: language_level=3, boundscheck=True, wraparound=False
"""Ranges of nested scopes out of spans of code that say which scope is the innermost one in them."""

from __future__ import annotations

from array import array
from collections.abc import Callable

import cython

from symd.model.light_typing import Any

_NO_PARENT = cython.declare(cython.uint, 0xFFFFFFFF)
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
