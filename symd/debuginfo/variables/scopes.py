"""Which scopes hold an address: the functions, inlined calls and blocks around it, innermost first."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.debuginfo.dwarf import Tag
from symd.debuginfo.text_ranges import disjoint_pieces
from symd.debuginfo.variables import Die, DieReader

_UNITS = frozenset({Tag.DW_TAG_compile_unit, Tag.DW_TAG_partial_unit, Tag.DW_TAG_skeleton_unit})
FUNCTIONS = (Tag.DW_TAG_subprogram, Tag.DW_TAG_inlined_subroutine)
"""Tags of functions and inlined calls."""
_BLOCKS = (Tag.DW_TAG_lexical_block, Tag.DW_TAG_try_block, Tag.DW_TAG_catch_block, Tag.DW_TAG_with_stmt)
_SCOPES = frozenset({*FUNCTIONS, *_BLOCKS})
MAX_SCOPES = 1000
"""Scopes around an address that are looked at; compilers nest some dozen."""
MAX_BLOCKS = 64
"""Blocks at an address whose function is looked for."""


class AddressRange(NamedTuple):
    """Addresses from ``start`` to before ``end``, in the linear address space."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class VariableScope:
    """A function, an inlined call or a block around an address, with all of its code ranges; ``function`` is the DIE of
    the nearest function or inlined call around it, the scope itself when it is one."""

    die: Die
    ranges: tuple[AddressRange, ...]
    function: Die | None


@dataclass(frozen=True)
class _RangeTable:
    """Code ranges of every scope or unit: ``which`` is the row of its DIE in the reader's extents."""

    which: NDArray[np.int64]
    start: NDArray[np.uint64]
    end: NDArray[np.uint64]

    def of(self, slot: int) -> tuple[AddressRange, ...]:
        order, which = self._by_slot
        first, last = np.searchsorted(which, (slot, slot + 1))
        rows = order[first:last]
        return tuple(map(AddressRange, self.start[rows].tolist(), self.end[rows].tolist()))

    @cached_property
    def _by_slot(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows in the order of ``which``, and ``which`` in that order."""
        order = np.argsort(self.which, kind="stable")
        return order, self.which[order]


class ScopeFinder:
    """The code ranges of all scopes of an object, read once."""

    def __init__(self, dies: DieReader) -> None:
        self._dies = dies
        self._scopes = self._table(_SCOPES)
        self._of_functions = np.isin(dies.extents.tag[self._scopes.which], FUNCTIONS)

    def around(self, address: int) -> list[VariableScope]:
        """The scopes that hold a linear address, innermost first, up to the function.

        The innermost function or inlined call is the one that an index has there: ``debuginfo.text_ranges`` has the
        rule for ranges that contradict each other. Where that gives an address to nobody although functions say that
        they hold it, the one whose range begins last has it here, of several the last in the tree: frames must not
        guess a function's name, but what it says of its variables is still so. Blocks count in that function only. What
        is around it in the tree counts, whether its ranges hold the address or not.
        """
        held = self._held(address)
        function = self._function_at(address) or next((die for die in held if die.tag in FUNCTIONS), None)
        blocks = (die for die in held if die.tag not in FUNCTIONS)
        chains = (self._chain(die) for die in islice(blocks, MAX_BLOCKS))
        # a chain that is cut off before it reaches a function, by MAX_SCOPES, belongs to the one that holds the
        # address
        inside = (
            chain for chain in chains if function is None or chain[0].function is None or chain[0].function is function
        )
        block = next(inside, None)
        if block is not None:
            return block
        return [] if function is None else self._chain(function)

    def _overlapping(self, address: int) -> NDArray[np.int64]:
        """The rows of function ranges that hold the address, overlap one that does, and so on; in the order of the
        tree."""
        begins, ends = self._stretches
        number = int(np.searchsorted(begins, np.uint64(address), side="right")) - 1
        if number < 0 or ends[number] <= address:
            return np.zeros(0, np.int64)
        table = self._scopes
        near = np.flatnonzero(self._of_functions & (table.start < ends[number]) & (table.end > begins[number]))
        return near[np.argsort(table.which[near], kind="stable")]

    @cached_property
    def _stretches(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Where what function ranges cover begins and ends: one stretch for those that overlap one another in a row."""
        rows = np.flatnonzero(self._of_functions & (self._scopes.start < self._scopes.end))
        rows = rows[np.argsort(self._scopes.start[rows], kind="stable")]
        start, reached = self._scopes.start[rows], np.maximum.accumulate(self._scopes.end[rows])
        first = np.ones(len(rows), np.bool_)
        first[1:] = start[1:] >= reached[:-1]
        return start[first], reached[np.roll(first, -1)]

    def _function_at(self, address: int) -> Die | None:
        """The function or inlined call that the rule gives the address to."""
        near = self._overlapping(address)
        columns = self._scopes.start, self._scopes.end, self._scopes.which
        for start, end, slot in disjoint_pieces(zip(*(each[near].tolist() for each in columns), strict=True)):
            if start <= address < end:
                return self._dies.at(int(self._dies.extents.at[slot]))
        return None

    def _held(self, address: int) -> list[Die]:
        """The scopes that say they hold the address; those whose range begins last come first."""
        table = self._scopes
        held = np.flatnonzero((table.start <= address) & (table.end > address))
        order = held[np.lexsort((table.which[held], table.start[held]))][::-1]
        found = (self._dies.at(int(self._dies.extents.at[slot])) for slot in table.which[order])
        return [die for die in islice(found, MAX_SCOPES) if die is not None]

    def unit_at(self, address: int) -> Die | None:
        """The top DIE of the unit that says it holds the address; of several the last."""
        table = self._units
        held = np.flatnonzero((table.start <= address) & (table.end > address))
        return self._dies.at(int(self._dies.extents.at[table.which[held[-1]]])) if len(held) else None

    @cached_property
    def _units(self) -> _RangeTable:
        return self._table(_UNITS)

    def _chain(self, innermost: Die) -> list[VariableScope]:
        dies = [innermost]
        if innermost.tag != Tag.DW_TAG_subprogram:
            for die in self._dies.ancestors(innermost, MAX_SCOPES):
                if die.tag in _SCOPES:
                    dies.append(die)
                if die.tag == Tag.DW_TAG_subprogram:
                    break
        return [
            VariableScope(die, self.ranges(die), next((each for each in dies[number:] if each.tag in FUNCTIONS), None))
            for number, die in enumerate(dies)
        ]

    def ranges(self, die: Die) -> tuple[AddressRange, ...]:
        """The code ranges of a function, an inlined call or a block."""
        return self._scopes.of(int(np.searchsorted(self._dies.extents.at, die.at)))

    def _table(self, tags: Collection[int]) -> _RangeTable:
        """The ranges of all DIEs with these tags."""
        extents = self._dies.extents
        wanted = np.isin(extents.tag, list(tags))[extents.ranges.which]
        which, start, end = extents.ranges
        return _RangeTable(which[wanted], start[wanted], end[wanted])
