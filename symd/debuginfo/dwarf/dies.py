"""DIEs of an object's units, as the core has them (``symd.core.dies``).

The names of the functions that a unit gives to others, before its addresses mean anything: enough to tell whose unit
it is.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence

from symd.core.dies import HAS_LOW, IS_EXTERNAL, DieRows
from symd.core.range_lists import RangeRows as CoreRanges
from symd.core.range_lists import UnitParameters
from symd.core.strings import Names, StringReader
from symd.debuginfo.dwarf.constants import Tag
from symd.debuginfo.dwarf.sections import DebugSections
from symd.debuginfo.dwarf.units import Unit, Units
from symd.errors import Malformed

SCOPES = (Tag.DW_TAG_subprogram, Tag.DW_TAG_inlined_subroutine)
"""The tags of functions and inlined calls."""


def read_rows(
    sections: DebugSections,
    units: Sequence[Unit],
    tags: Collection[int],
    *,
    with_children: bool = False,
    only_first: bool = False,
) -> tuple[DieRows, list[tuple[int, Malformed]]]:
    """The DIEs of ``tags`` in some units, and all that have children where ``with_children``; the first of each unit where ``only_first``. A unit whose tree cannot be followed
    is left out whole. Raises LimitExceeded for range lists that overlap without end, and
    for more DIEs than ``sections.budget`` has left."""
    budget, info = sections.budget, sections.info
    counted = 0

    def check(number: int) -> None:
        if budget is not None:
            budget.check(number - counted, info.name)

    ranges_before = 0

    def check_ranges(number: int) -> None:
        if budget is not None:
            budget.check(number - ranges_before, info.name)

    lists = sections.range_lists.data
    ranges = CoreRanges(sections.ranges.data, lists, sections.addresses.data, check_ranges)
    rows = DieRows(
        info.data,
        sections.string_offsets.data,
        lists,
        ranges,
        frozenset(tags),
        with_children,
        check,
    )
    left_out: list[tuple[int, Malformed]] = []
    for place, unit in enumerate(units):
        if unit.table is None:
            continue
        entries, ranges_before = ranges.entries, ranges.count
        try:
            rows.read(parameters(unit, place), unit.table.steps, only_first)
        except Malformed as error:
            left_out.append((place, error))
        if budget is not None:
            budget.count(rows.count - counted, info.name)
            budget.spend(ranges.entries - entries, info.name)
        counted = rows.count
    rows.trim()
    return rows, left_out


def parameters(unit: Unit, place: int) -> UnitParameters:
    """What the core is told of a unit."""
    return UnitParameters(
        place,
        unit.offset,
        unit.dies,
        unit.end,
        unit.version,
        unit.widths.address,
        unit.widths.offset,
        unit.low_pc,
        unit.str_offsets_base,
        unit.addr_base,
        unit.rnglists_base,
        unit.ranges_base if unit.contributions else 0,  # DW_AT_GNU_ranges_base of a skeleton is for its split unit
    )


def external_functions(sections: DebugSections, units: Units) -> list[tuple[str, ...]]:
    """For each unit the names of the functions directly below its first DIE that say they are external and have code,
    in order. Raises Malformed where a unit's tree cannot be followed."""
    dies, left_out = read_rows(sections, units.units, (Tag.DW_TAG_subprogram,))
    for _, error in left_out:
        raise error
    columns = (dies.column(each) for each in ("depth", "flags", "name", "unit"))
    wanted = [
        (name, unit)
        for depth, flags, name, unit in zip(*columns, strict=True)
        if depth == 1 and name and flags & IS_EXTERNAL and flags & HAS_LOW
    ]
    names = Names()
    number, _ = names.intern(StringReader(sections), array("Q", [name for name, _ in wanted]))
    known = names.all()
    found: list[list[str]] = [[] for _ in units.units]
    for (_, place), name in zip(wanted, number, strict=True):
        found[place].append(known[name])
    return [tuple(each) for each in found]
