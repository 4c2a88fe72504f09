"""The ranges of the blocks and variables of functions, as far as they lie outside the functions' own."""

from __future__ import annotations

from collections.abc import Callable, Collection

from symd.core import block_ranges as core
from symd.core.range_lists import RangeRows
from symd.debuginfo.dwarf.sections import DebugSections
from symd.debuginfo.dwarf.units import Unit, Units, parameters, read_rows

Listed = Callable[[Unit, int, "int | None"], "list[tuple[int, int]]"]
"""The ranges [start, end) of a location list of a unit: of that at an offset of its section, or (None) of that which
the DIE at a place refers to."""

_WITH_LISTS_OF_THEIR_OWN = 5
"""The version of DWARF from which on location lists have kinds of entries."""


def outside_of_functions(
    sections: DebugSections, units: Units, of_units: Collection[int], listed: Listed
) -> list[tuple[int, int]]:
    """The ranges of blocks and variables that lie outside their functions, for the units with the numbers
    ``of_units``, as linear addresses [start, end). ``listed`` is asked for the location lists of DWARF 5 and of split
    units. Raises Malformed, LimitExceeded, and what ``listed`` raises."""
    chosen = [unit for unit in units.units if unit.number in of_units]
    sections.spend(sum(unit.end - unit.dies for unit in chosen), sections.info.name)
    rows, _ = read_rows(sections, chosen, core.TAGS, with_children=True)
    plain = [
        parameters(unit, place) if unit.version < _WITH_LISTS_OF_THEIR_OWN and unit.contributions is None else None
        for place, unit in enumerate(chosen)
    ]

    def other(unit: int, place: int, offset: int | None) -> list[tuple[int, int]]:
        return listed(chosen[unit], place, offset)

    found = core.outside_of_functions(rows, plain, RangeRows(sections.locations.data, b"", b""), other)
    rows.give_back()
    return found
