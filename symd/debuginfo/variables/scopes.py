"""Which scopes hold an address: the functions, inlined calls and blocks around it, innermost first."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.debuginfo.variables.dies import Die, Dies
from symd.dwarf.attributes import AttributeReader
from symd.dwarf.range_lists import read_lists

SUBPROGRAM, INLINED_SUBROUTINE = 0x2E, 0x1D
_UNITS = frozenset({0x11, 0x3C, 0x4A})  # compile, partial and skeleton unit
_FUNCTIONS = (SUBPROGRAM, INLINED_SUBROUTINE)
_SCOPES = frozenset({SUBPROGRAM, INLINED_SUBROUTINE, 0x0B, 0x32, 0x25, 0x22})  # lexical, try, catch and with block
_MOST_SCOPES, _MOST_BLOCKS = 1000, 64
"""Scopes around an address that are looked at; compilers nest some dozen."""


class Span(NamedTuple):
    """``[start, end)`` in the linear address space."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Scope:
    """A function, an inlined call or a block around an address, with all of its code ranges; ``function`` is the DIE of
    the nearest function or inlined call around it, the scope itself when it is one."""

    die: Die
    spans: tuple[Span, ...]
    function: Die | None


class _Table(NamedTuple):
    """Code ranges of every scope and unit: ``which`` numbers the DIEs of the skeleton."""

    which: NDArray[np.int64]
    start: NDArray[np.uint64]
    end: NDArray[np.uint64]

    def of(self, slot: int) -> tuple[Span, ...]:
        rows = np.flatnonzero(self.which == slot)
        return tuple(Span(int(start), int(end)) for start, end in zip(self.start[rows], self.end[rows], strict=True))


class ScopeFinder:
    """The code ranges of all scopes of an object, read once."""

    def __init__(self, dies: Dies) -> None:
        self._dies = dies
        self._scopes = self._table(_SCOPES)

    def around(self, address: int) -> list[Scope]:
        """The scopes that hold a linear address, innermost first, up to the function.

        The innermost function is the one whose range begins last, and of several that stands last in the tree: where a
        compiler's ranges contradict each other, as LLVM decides. Blocks count in that function only. What stands around
        it in the tree counts, whether its ranges hold the address or not.
        """
        held = self._held(address)
        function = next((die for die in held if die.tag in _FUNCTIONS), None)
        blocks = (die for die in held if die.tag not in _FUNCTIONS)
        chains = (self._chain(die) for die in islice(blocks, _MOST_BLOCKS))
        inside = (chain for chain in chains if function is None or chain[0].function is function)
        block = next(inside, None)
        if block is not None:
            return block
        return [] if function is None else self._chain(function)

    def _held(self, address: int) -> list[Die]:
        """The scopes that say they hold the address; those whose range begins last come first."""
        table = self._scopes
        held = np.flatnonzero((table.start <= address) & (table.end > address))
        order = held[np.lexsort((table.which[held], table.start[held]))][::-1]
        found = (self._dies.at(int(self._dies.skeleton.at[slot])) for slot in table.which[order])
        return [die for die in islice(found, _MOST_SCOPES) if die is not None]

    def unit_at(self, address: int) -> Die | None:
        """The top DIE of the unit that says it holds the address; of several the last."""
        table = self._table(_UNITS)
        held = np.flatnonzero((table.start <= address) & (table.end > address))
        return self._dies.at(int(self._dies.skeleton.at[table.which[held[-1]]])) if len(held) else None

    def _chain(self, innermost: Die) -> list[Scope]:
        dies = [innermost]
        if innermost.tag != SUBPROGRAM:
            for die in self._dies.ancestors(innermost, _MOST_SCOPES):
                if die.tag in _SCOPES:
                    dies.append(die)
                if die.tag == SUBPROGRAM:
                    break
        return [Scope(die, self._spans(die), _function(dies[number:])) for number, die in enumerate(dies)]

    def _spans(self, die: Die) -> tuple[Span, ...]:
        return self._scopes.of(int(np.searchsorted(self._dies.skeleton.at, die.at)))

    def _table(self, tags: frozenset[int]) -> _Table:
        """The ranges of all DIEs with these tags; low_pc and high_pc go before a list."""
        skeleton, units, sections = self._dies.skeleton, self._dies.units, self._dies.sections
        wanted = np.array([shape.tag in tags for shape in units.shapes.all], np.bool_)
        slots = np.flatnonzero(wanted[skeleton.shape]) if len(skeleton.shape) else np.zeros(0, np.int64)
        unit = skeleton.unit[slots]
        reader = AttributeReader(sections, np.frombuffer(sections.info.data, np.uint8), units.units)
        found = reader.read(units.shapes.all, skeleton.shape[slots], skeleton.attributes[slots], unit)
        simple = found.has_low & found.has_high
        low = np.flatnonzero(simple)
        start = found.low[low]
        end = found.high[low] + np.where(found.high_is_size[low], start, np.uint64(0))
        listed = np.flatnonzero(found.has_ranges & ~simple)
        lists, _ = read_lists(sections, reader, found.ranges[listed], unit[listed])
        filled = start < end
        return _Table(
            slots[np.concatenate([low[filled], listed[lists.which]])],
            np.concatenate([start[filled], lists.start]),
            np.concatenate([end[filled], lists.end]),
        )


def _function(outwards: list[Die]) -> Die | None:
    return next((die for die in outwards if die.tag in _FUNCTIONS), None)
