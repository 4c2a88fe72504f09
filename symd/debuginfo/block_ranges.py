"""The ranges of the blocks and variables of functions, as far as they lie outside the functions' own."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from symd.core.dies import LOCATION_LIST, OTHER_LOCATION
from symd.debuginfo.variables.dies import DieReader
from symd.debuginfo.variables.list_reader import ListReader
from symd.debuginfo.variables.location_lists import ListEntry, ListEntryBudget
from symd.dwarf import DebugSections, Units
from symd.dwarf.constants import At, Tag
from symd.dwarf.dies import read_rows

_FUNCTION, _BLOCK = int(Tag.DW_TAG_subprogram), int(Tag.DW_TAG_lexical_block)
_VARIABLES = frozenset({int(Tag.DW_TAG_formal_parameter), int(Tag.DW_TAG_variable)})
_WANTED = _VARIABLES | {_FUNCTION, _BLOCK}
_NOBODY = -1
_Extent = tuple[int, int]
"""Linear addresses [start, end)."""


def outside_of_functions(sections: DebugSections, units: Units, of_units: Collection[int]) -> list[_Extent]:
    """Those of the functions of some units. Raises Malformed, LimitExceeded."""
    return sorted(_Reader(sections, units).strays(of_units))


class _Reader:
    """The functions of some units, with their blocks and variables."""

    def __init__(self, sections: DebugSections, units: Units) -> None:
        self._sections, self._units = sections, units
        self._dies = DieReader(sections, units)
        self._lists = ListReader(self._dies, ListEntryBudget())

    def strays(self, of_units: Collection[int]) -> Iterator[_Extent]:
        chosen = [unit for unit in self._units.units if unit.number in of_units]
        self._sections.spend(sum(unit.end - unit.dies for unit in chosen), self._sections.info.name)
        rows, _ = read_rows(self._sections, chosen, _WANTED, with_children=True)
        tag, owner = rows.column("tag"), _owners(rows.column("tag"), rows.column("parent"))
        own: dict[int, _Extent] = {}
        inside: list[tuple[int, _Extent]] = []
        for row, start, end in zip(rows.ranges.which, rows.ranges.start, rows.ranges.stop, strict=True):
            if tag[row] == _FUNCTION:
                first, last = own.get(row, (start, end))
                own[row] = min(first, start), max(last, end)
            elif tag[row] == _BLOCK and owner[row] != _NOBODY:
                inside.append((owner[row], (start, end)))
        columns = tag, owner, rows.column("flags"), rows.column("unit"), rows.column("place"), rows.column("location")
        for kind, function, flags, unit, place, location in zip(*columns, strict=True):
            if kind not in _VARIABLES or function == _NOBODY or not flags & (LOCATION_LIST | OTHER_LOCATION):
                continue
            is_list = flags & LOCATION_LIST
            entries = self._lists.at(chosen[unit], location) if is_list else self._entries(place)
            inside += [(function, each[:2]) for each in entries if not each.default]
        for function, extent in inside:
            around = own.get(function, (0, 0))
            if extent[0] < around[0] or extent[1] > around[1]:
                yield from _outside(extent, around)

    def _entries(self, place: int) -> list[ListEntry]:
        """Those of a variable that says in another way where it is."""
        die = self._dies.at(place)
        value = None if die is None else die.attributes.get(At.DW_AT_location)
        if die is None or value is None or value.is_block:
            return []
        return self._lists.entries(die.unit, value) or []


def _owners(tag: Collection[int], parent: Collection[int]) -> list[int]:
    """The function that each block and variable is in, by its row; _NOBODY where something else than blocks stands between. ``parent`` counts from 1."""
    found: list[int] = []
    tags = [0, *tag]
    for around in parent:
        found.append(
            around - 1 if tags[around] == _FUNCTION else found[around - 1] if tags[around] == _BLOCK else _NOBODY
        )
    return found


def _outside(inside: _Extent, own: _Extent) -> Iterator[_Extent]:
    """What of a range lies before and after the function's."""
    (start, end), (first, last) = inside, own
    if start < first:
        yield start, min(end, first)
    if end > last:
        yield max(start, last), end
