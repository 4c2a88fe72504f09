"""The ranges of the blocks and variables of functions, as far as they lie outside the functions' own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from symd.core import block_ranges as core
from symd.core.range_lists import RangeRows
from symd.debuginfo.dwarf.sections import DebugSections
from symd.debuginfo.dwarf.units import Unit, parameters, read_rows_of
from symd.model.light_typing import NamedTuple

Listed = Callable[[Unit, int, "int | None"], "list[tuple[int, int]]"]
"""The ranges [start, end) of a location list of a unit: of that at an offset of its section, or (None) of that which
the DIE at a place refers to."""

_WITH_LISTS_OF_THEIR_OWN = 5
"""The version of DWARF from which on location lists have kinds of entries."""


class BlocksOf(NamedTuple):
    """Units of one object whose blocks and variables are looked at. ``listed`` is asked for the location lists of
    DWARF 5 and of split units."""

    sections: DebugSections
    units: Sequence[Unit]
    listed: Listed


def outside_of_functions(objects: Sequence[BlocksOf]) -> list[list[tuple[int, int]]]:
    """For each object the ranges of blocks and variables that lie outside their functions, as linear addresses [start,
    end). Raises Malformed, LimitExceeded, and what ``listed`` raises."""
    for sections, units, _ in objects:
        sections.spend(sum([unit.end - unit.dies for unit in units]), sections.info.name)
    rows, read = read_rows_of([(each.sections, each.units) for each in objects], core.TAGS, with_children=True)
    every = [(unit, each.listed) for each in objects for unit in each.units]
    plain = [
        parameters(unit, place) if unit.version < _WITH_LISTS_OF_THEIR_OWN and unit.contributions is None else None
        for place, (unit, _) in enumerate(every)
    ]

    def other(number: int, place: int, offset: int | None) -> list[tuple[int, int]]:
        unit, listed = every[number]
        return listed(unit, place, offset)

    lists = [each.sections.locations.data for each in objects]
    found: list[list[tuple[int, int]]]
    found = core.outside_of_functions(rows, [each.rows for each in read], plain, RangeRows(), lists, other)
    return found
