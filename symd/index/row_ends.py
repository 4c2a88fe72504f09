"""Where rows end. A line sequence may go on after the end of its function, over padding that belongs to no function. So a row that
begins in a function is taken to end where the function's symbol ends."""

from __future__ import annotations

import numpy as np

from symd.index.format import Column
from symd.index.module_tables import ModuleTables, NamedRanges, ScopeRanges
from symd.model.columns import U64


def within_functions(start: Column, stop: Column, module: ModuleTables) -> tuple[Column, Column]:
    """The rows' text positions [start, stop). A row that goes on after the end of the function symbol in which it begins is
    cut there, provided that no symbol and no scope has any code in the part cut off."""
    if not len(module.symbols.start) or not len(start):
        return start, stop
    symbols, scopes = _Cover(module.symbols), _Cover(module.ranges)
    end = symbols.end_at(start)
    at = np.flatnonzero((end > start) & (end < stop))
    unclaimed = [cover.leaves_free(end[at], stop[at]) for cover in (symbols, scopes)]
    at = at[unclaimed[0] & unclaimed[1]]
    cut = stop.copy()
    cut[at] = end[at]
    return start, cut


class _Cover:
    """Ranges by their beginning, and how far those up to each one reach."""

    def __init__(self, ranges: NamedRanges | ScopeRanges) -> None:
        order = np.argsort(ranges.start, kind="stable")
        self.first: U64 = ranges.start[order].astype(np.uint64)
        self.reach: U64 = np.append(np.uint64(0), np.maximum.accumulate(ranges.stop[order].astype(np.uint64)))

    def end_at(self, position: Column) -> U64:
        """The farthest end of the ranges that begin up to there; it is before the position where none holds it."""
        found: U64 = self.reach[np.searchsorted(self.first, position, side="right")]
        return found

    def leaves_free(self, start: Column, stop: Column) -> Column:
        """Whether no range holds anything of [start, stop)."""
        before = np.searchsorted(self.first, stop, side="left")
        free: Column = self.reach[before] <= start
        return free
