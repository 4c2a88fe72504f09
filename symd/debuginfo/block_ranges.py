"""The ranges of the blocks and variables of functions, as far as they lie outside the functions' own."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from symd.debuginfo.variables import die_extents
from symd.debuginfo.variables.dies import Die, DieReader
from symd.debuginfo.variables.list_reader import ListReader
from symd.debuginfo.variables.location_lists import ListEntryBudget
from symd.debuginfo.variables.scopes import AddressRange, ScopeFinder
from symd.dwarf import DebugSections, Units
from symd.dwarf.constants import At, Tag

_VARIABLES = frozenset({Tag.DW_TAG_formal_parameter, Tag.DW_TAG_variable})
_WANTED = _VARIABLES | {Tag.DW_TAG_lexical_block}


def outside_of_functions(sections: DebugSections, units: Units, of_units: Collection[int]) -> list[AddressRange]:
    """Those of the functions of some units. Raises Malformed, LimitExceeded."""
    return _Reader(sections, units).strays(of_units)


class _Reader:
    """The functions of all units, with their blocks and variables."""

    def __init__(self, sections: DebugSections, units: Units) -> None:
        self._dies = DieReader(sections, units, die_extents.read(sections, units))
        self._finder = ScopeFinder(self._dies)
        self._lists = ListReader(self._dies, ListEntryBudget())

    def strays(self, of_units: Collection[int]) -> list[AddressRange]:
        extents = self._dies.extents
        found = []
        columns = extents.at.tolist(), extents.unit.tolist(), extents.tag.tolist()
        for at, unit, tag in zip(*columns, strict=True):
            wanted = unit in of_units and tag == Tag.DW_TAG_subprogram
            die = self._dies.at(at) if wanted else None
            if die is not None:
                own = self._extent(die)
                found += [each for inside in self._inside(die) for each in _outside(inside, own)]
        return sorted(found)

    def _extent(self, function: Die) -> AddressRange:
        """From its first byte to its last; nothing where it has no code."""
        ranges = self._finder.ranges(function) or (AddressRange(0, 0),)
        return AddressRange(min(each.start for each in ranges), max(each.end for each in ranges))

    def _inside(self, function: Die) -> Iterator[AddressRange]:
        """The ranges of everything in a function but what is inlined into it."""
        open_ = [function]
        while open_:
            for die in self._dies.children(open_.pop(), _WANTED):
                if die.tag in _VARIABLES:
                    yield from self._live(die)
                else:
                    yield from self._finder.ranges(die)
                    open_.append(die)

    def _live(self, die: Die) -> Iterator[AddressRange]:
        value = die.attributes.get(At.DW_AT_location)
        if value is None or value.is_block:
            return
        for entry in self._lists.entries(die.unit, value) or ():
            if not entry.default:
                yield AddressRange(entry.start, entry.end)


def _outside(inside: AddressRange, own: AddressRange) -> Iterator[AddressRange]:
    """What of a range lies before and after the function's."""
    if inside.start < own.start:
        yield AddressRange(inside.start, min(inside.end, own.start))
    if inside.end > own.end:
        yield AddressRange(max(inside.start, own.end), inside.end)
