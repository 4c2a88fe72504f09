"""Owners of code, and where it begins: the functions and inlined copies that locations belong to, where functions begin
and end, and places in text with what is known of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from symd.index import Index
from symd.index.format import Column
from symd.model.addresses import ObjectAddress, SectionOffset
from symd.model.answers import Reason
from symd.model.breakpoints import BreakpointLocation
from symd.model.columns import I64, U64
from symd.model.debug_info import RowFlag
from symd.model.sources import PathRule
from symd.query.source_files import Remapping


@dataclass(frozen=True, slots=True)
class CodeExtent:
    """A function with code of its own: its name and its first and last byte, as text positions (``section_base`` plus
    offset), the last excluded."""

    name: str | None
    start: int
    end: int


class OwnerSpans:
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
        self._extents: dict[int, CodeExtent] = {}
        self._names: dict[int, str] = {}

    def position(self, section: Column, offset: Column) -> U64:
        """Text positions of offsets in text sections."""
        return self._index.columns.section_base.astype(np.uint64)[section] + offset.astype(np.uint64)

    def of(self, locations: I64, position: U64) -> I64:
        """Who each location belongs to, given where it is asked for; 0: nobody.

        Where no scope reaches, because the debug data contradicts itself or begins late, the innermost function around
        has the code.
        """
        owner, scopeless = self._by_own_scope(locations)
        if not len(self._start):
            return owner
        at = np.maximum(np.searchsorted(self._start, position, side="right") - 1, 0)
        inside = scopeless & (self._start[at] <= position) & (position - self._start[at] < self._size[at])
        return np.where(inside, self._owner[at], owner)

    def of_scope(self, location: int) -> int:
        """Who a location belongs to by its own scope; 0: nobody."""
        return int(self._by_own_scope(np.array([location]))[0][0])

    def _by_own_scope(self, locations: I64) -> tuple[I64, NDArray[np.bool_]]:
        """(who each location belongs to by its own scope, whether no scope reaches it)."""
        owner = self._index.derived.locations.owner[locations].astype(np.int64)
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

    def extent(self, owner: int) -> CodeExtent | None:
        """None for an inlined copy, and for nobody."""
        at = self._slot_of.get(owner)
        if at is None:
            return None
        found = self._extents.get(at)
        if found is None:
            number, start = int(self._functions.name[self._rows[at]]), int(self._start[at])
            if number not in self._names:  # the same object for all functions of the name, which may be long
                self._names[number] = self._index.strings[number]
            found = self._extents[at] = CodeExtent(self._names[number] or None, start, start + int(self._size[at]))
        return found

    @cached_property
    def _slot_of(self) -> dict[int, int]:
        return {owner: at for at, owner in enumerate(self._owner.tolist())}

    def prologue_end(self, extent: CodeExtent) -> int | None:
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


def has_doubted_line(index: Index, section: Column, offset: Column) -> NDArray[np.bool_]:
    """Whether the debug data contradicts itself at these places, so that no line holds there."""
    at = index.location_numbers(section, offset)
    found: NDArray[np.bool_] = (index.locations.reason[at] == Reason.CONTRADICTORY) & (index.locations.line[at] == 0)
    return found


class CodePlaces:
    """Places in text, by text section and offset, each with the owner whose code is meant there (``OwnerSpans``)."""

    def __init__(
        self, index: Index, section: I64, offset: U64, rules: Sequence[PathRule] = (), *, slid: bool = False
    ) -> None:
        self.index = index
        self.locations = index.locations
        self.remapping = Remapping(rules)
        self.slid = slid
        self._texts: dict[int, str] = {}
        self._paths: dict[int, str] = {}
        self._is_possible: NDArray[np.bool_] | None = None
        self.owners = OwnerSpans(index)
        self.section, self.offset = section, offset
        self.position = self.owners.position(section, offset)
        self.leaf = index.location_numbers(section, offset).astype(np.int64)
        self.owner = self.owners.of(self.leaf, self.position)

    def innermost(self) -> tuple[BreakpointLocation, ...]:
        """Every place, with the innermost frame there."""
        return self.sorted(
            self.made(at, int(self.offset[at]), leaf, leaf, self._position_of(leaf))
            for at, leaf in enumerate(self.leaf.tolist())
        )

    def entered(self, owner: I64, is_possible: NDArray[np.bool_]) -> tuple[BreakpointLocation, ...]:
        """Every place, where the code of an ``owner`` begins, with the owner's frame; after the prologue where the
        place is a function's first. The code may be entered elsewhere where the place only ``is_possible``."""
        self.owner, self._is_possible = owner, is_possible
        return self.sorted(self.after(at, self.prologue(at)) for at in range(len(self.section)))

    def prologue(self, at: int) -> int:
        """The bytes from a place to the end of the prologue, where its function begins there and the debug data says
        where that is; else 0."""
        extent, position = self.owners.extent(int(self.owner[at])), int(self.position[at])
        if extent is None or extent.start != position:
            return 0
        end = self.owners.prologue_end(extent)
        if end is None or self._doubted_after(at, end - position):
            return 0
        return end - position

    def _doubted_after(self, at: int, distance: int) -> bool:
        offset = np.array([int(self.offset[at]) + distance], np.uint64)
        return bool(has_doubted_line(self.index, self.section[at : at + 1], offset)[0])

    def after(self, at: int, distance: int) -> BreakpointLocation:
        """The location so many bytes after a place, with the position that the place's owner has there."""
        offset = int(self.offset[at]) + distance
        leaf = int(self.index.location_numbers(self.section[at : at + 1], np.array([offset], np.uint64))[0])
        frame = leaf
        table = self.locations
        while int(table.parent[frame]) and self.owners.of_scope(frame) != self.owner[at]:
            frame = int(table.parent[frame])
        return self.made(at, offset, leaf, frame, self._position_of(frame))

    def _position_of(self, frame: int) -> tuple[int, int, int]:
        table = self.locations
        return int(table.file[frame]), int(table.line[frame]), int(table.column[frame])

    def made(self, at: int, offset: int, leaf: int, frame: int, position: tuple[int, int, int]) -> BreakpointLocation:
        """The location at ``offset`` of the text section of a place: file, line and column are ``position``."""
        where, text = self.index.sections[int(self.section[at])], self.text
        file, line, column = position
        extent = self.owners.extent(int(self.owner[at]))
        return BreakpointLocation(
            where.path,
            text(int(self.locations.kernel[leaf])) or None,
            extent.name if extent else text(int(self.locations.function[frame])) or None,
            where.section,
            where.section_index,
            SectionOffset(offset),
            ObjectAddress(where.address + offset),
            self._file(file),
            line,
            column,
            bool(self.locations.inlined[frame]),
            self.slid,
            possible_entry=self._is_possible is not None and bool(self._is_possible[at]),
        )

    def text(self, number: int) -> str:
        """A string, the same object for all locations: there may be as many as rows, and it as long as whoever made the
        module liked."""
        found = self._texts.get(number)
        if found is None:
            found = self._texts[number] = self.index.strings[number]
        return found

    def _file(self, number: int) -> str:
        """The path of a file after the rules, in the same way."""
        found = self._paths.get(number)
        if found is None:
            found = self._paths[number] = self.remapping.of(self.text(number))
        return found

    def sorted(self, locations: Iterable[BreakpointLocation]) -> tuple[BreakpointLocation, ...]:
        """Locations by kernel and address."""
        number = {path: at for at, path in enumerate(self.index.objects)}
        return tuple(
            sorted(locations, key=lambda s: (s.kernel or "", number[s.path], s.section_index, s.section_offset))
        )
