"""Whose code is it? The functions and inlined copies that locations belong to, and where functions begin and end."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from symd.index import Index
from symd.index.format import Column
from symd.model.columns import I64, U64
from symd.model.debug_info import RowFlag


@dataclass(frozen=True, slots=True)
class Extent:
    """A function with code of its own: its name and its first and last byte, as text positions (``section_base`` plus
    offset), the last excluded."""

    name: str | None
    start: int
    end: int


class Owners:
    """Owners of an index (docs/index-format.md, ``LocationTable.owner``), a function with one number wherever it is."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._functions = functions = index.functions
        owner = functions.owner.astype(np.int64)
        own = np.flatnonzero((owner > 0) & (functions.section > 0) & (functions.size > 0))
        start = self.position(functions.section[own].astype(np.int64) - 1, functions.offset[own])
        order = np.argsort(start, kind="stable")
        self._rows, self._start = own[order], start[order]
        self._size = functions.size[self._rows].astype(np.uint64)
        self._owner = owner[self._rows]
        self._extents: dict[int, Extent] = {}

    def position(self, section: Column, offset: Column) -> U64:
        """Text positions of offsets in text sections."""
        return self._index.columns.section_base.astype(np.uint64)[section] + offset.astype(np.uint64)

    def of(self, locations: I64, position: U64) -> I64:
        """Who each location belongs to, given where it is asked for; 0: nobody.

        Where no scope reaches, because the debug data contradicts itself or begins late, the innermost function around
        has the code.
        """
        owner, scopeless = self._told(locations)
        if not len(self._start):
            return owner
        at = np.maximum(np.searchsorted(self._start, position, side="right") - 1, 0)
        inside = scopeless & (self._start[at] <= position) & (position - self._start[at] < self._size[at])
        return np.where(inside, self._owner[at], owner)

    def of_scope(self, location: int) -> int:
        """Who a location belongs to by its own scope; 0: nobody."""
        return int(self._told(np.array([location]))[0][0])

    def _told(self, locations: I64) -> tuple[I64, NDArray[np.bool_]]:
        """(who each location belongs to by its own scope, whether no scope reaches it)."""
        owner = self._index.location_owner[locations].astype(np.int64)
        symbol, function = self._symbols
        if len(symbol):
            at = np.minimum(np.searchsorted(symbol, owner), len(symbol) - 1)
            scopeless = (owner == 0) | (symbol[at] == owner)
            return np.where(symbol[at] == owner, function[at], owner), scopeless
        return owner, owner == 0

    @cached_property
    def _symbols(self) -> tuple[I64, I64]:
        """I64 of symbols, growing, and of the functions that they are symbols of."""
        symbol = self._functions.symbol.astype(np.int64)
        known = np.flatnonzero(symbol)
        known = known[np.argsort(symbol[known])]
        return symbol[known], self._functions.owner[known].astype(np.int64)

    def extent(self, owner: int) -> Extent | None:
        """None for an inlined copy, and for nobody."""
        at = self._slot_of.get(owner)
        if at is None:
            return None
        found = self._extents.get(at)
        if found is None:
            name, start = self._index.strings[int(self._functions.name[self._rows[at]])], int(self._start[at])
            found = self._extents[at] = Extent(name or None, start, start + int(self._size[at]))
        return found

    @cached_property
    def _slot_of(self) -> dict[int, int]:
        return {owner: at for at, owner in enumerate(self._owner.tolist())}

    def prologue_end(self, extent: Extent) -> int | None:
        """The position of the function's first row that says prologue_end."""
        first = int(np.searchsorted(self._prologues, np.uint64(extent.start)))
        if first == len(self._prologues):
            return None
        position = int(self._prologues[first])
        return position if position < extent.end else None

    @cached_property
    def _prologues(self) -> U64:
        rows = self._index.rows
        ends = np.flatnonzero(rows.flags & RowFlag.PROLOGUE_END)
        return np.sort(self.position(rows.section[ends], rows.offset[ends]))
