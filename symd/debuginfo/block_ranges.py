"""The ranges of the blocks and variables of functions, as far as they lie outside the functions' own."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from symd.core import block_ranges as core
from symd.core.range_lists import RangeRows
from symd.debuginfo.dwarf.constants import At
from symd.debuginfo.dwarf.sections import DebugSections
from symd.debuginfo.dwarf.units import Units, parameters, read_rows

if TYPE_CHECKING:
    from symd.debuginfo.variables.location_lists import ListReader

_WITH_LISTS_OF_THEIR_OWN = 5
"""The version of DWARF from which on location lists have kinds of entries."""


def outside_of_functions(sections: DebugSections, units: Units, of_units: Collection[int]) -> list[tuple[int, int]]:
    """The ranges of blocks and variables that lie outside their functions, for the units with the numbers
    ``of_units``, as linear addresses [start, end). Raises Malformed, LimitExceeded."""
    chosen = [unit for unit in units.units if unit.number in of_units]
    sections.spend(sum(unit.end - unit.dies for unit in chosen), sections.info.name)
    rows, _ = read_rows(sections, chosen, core.TAGS, with_children=True)
    plain = [
        parameters(unit, place) if unit.version < _WITH_LISTS_OF_THEIR_OWN and unit.contributions is None else None
        for place, unit in enumerate(chosen)
    ]
    readers: list[ListReader] = []

    def other(unit: int, place: int, offset: int | None) -> list[tuple[int, int]]:
        if not readers:
            from symd.debuginfo.variables.location_lists import ListReader  # noqa: PLC0415 - 81 ms of NumPy: hardly any unit needs it

            readers.append(ListReader.of(sections, units))
        lists = readers[0]
        if offset is not None:
            entries = lists.at(chosen[unit], offset)
        else:
            die = lists.dies.at(place)
            value = None if die is None else die.attributes.get(At.DW_AT_location)
            entries = [] if value is None or value.is_block else lists.entries(chosen[unit], value) or []
        return [(entry.start, entry.end) for entry in entries if not entry.default]

    found = core.outside_of_functions(rows, plain, RangeRows(sections.locations.data, b"", b""), other)
    rows.give_back()
    return found
