"""Where rows end. A line sequence may go on after the end of its function, over padding that belongs to no function. So a row that
begins in a function is taken to end where the function's symbol ends. Line tables without units are NVIDIA's: there a row says nothing
of a function that begins later. The assembler puts its own functions (division, square root), without rows, behind a kernel and within its symbol."""

from __future__ import annotations

import numpy as np

from symd.index.format import Column
from symd.index.module_tables import ModuleTables, NamedRanges, ScopeRanges


def within_functions(start: Column, stop: Column, module: ModuleTables) -> tuple[Column, Column]:
    """The rows' text positions [start, stop). A row that goes on after the end of the function symbol in which it begins is
    cut there, provided that no symbol and no scope has any code in the part cut off."""
    if not len(module.symbols.start) or not len(start):
        return start, stop
    symbols, scopes = _Cover(module.symbols), _Cover(module.ranges)
    if module.line_tables_alone.any():
        stop = _up_to_next_symbol(start, stop, module)
    end = symbols.end_at(start)
    over = end < stop
    over &= end > start
    at = np.flatnonzero(over)
    unclaimed = [cover.leaves_free(end[at], stop[at]) for cover in (symbols, scopes)]
    at = at[unclaimed[0] & unclaimed[1]]
    cut = stop.copy()
    cut[at] = end[at]
    return start, cut


def _up_to_next_symbol(start: Column, stop: Column, module: ModuleTables) -> Column:
    """Where rows end that would reach over a function symbol which begins after them in an object with ``line_tables_alone``; the scopes of such an
    object end there too (``debuginfo.row_scopes``)."""
    begins = np.sort(module.symbols.start[module.line_tables_alone[module.symbols.object]])
    at = np.searchsorted(begins, start, side="right")
    following = np.append(begins, begins.dtype.type(0))[at]
    cut: Column = np.where((at < len(begins)) & (following < stop), following, stop)
    return cut


class _Cover:
    """Ranges by their beginning, and how far those up to each one reach."""

    def __init__(self, ranges: NamedRanges | ScopeRanges) -> None:
        order = np.argsort(ranges.start, kind="stable")
        self.first = ranges.start[order]
        self.reach = np.append(ranges.stop.dtype.type(0), np.maximum.accumulate(ranges.stop[order]))

    def end_at(self, position: Column) -> Column:
        """The farthest end of the ranges that begin up to there; it is before the position where none holds it."""
        if (position[1:] < position[:-1]).any():
            found: Column = self.reach[np.searchsorted(self.first, position, side="right")]
            return found
        begun = np.searchsorted(position, self.first.astype(position.dtype))  # fewer to look for
        return np.repeat(self.reach, np.diff(begun, prepend=0, append=len(position)))

    def leaves_free(self, start: Column, stop: Column) -> Column:
        """Whether no range holds anything of [start, stop)."""
        before = np.searchsorted(self.first, stop, side="left")
        free: Column = self.reach[before] <= start
        return free
