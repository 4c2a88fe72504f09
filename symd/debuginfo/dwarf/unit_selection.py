"""The units that hold some addresses, found without reading their DIEs, so that a question about a large object does
not wait for all of it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from symd.core.line_program import places_of_set_address
from symd.debuginfo.dwarf import forms
from symd.debuginfo.dwarf.constants import At
from symd.debuginfo.dwarf.sections import DebugSections
from symd.debuginfo.dwarf.units import Unit, Units, read_rows
from symd.model.light_typing import NamedTuple

_BYTES_A_STEP = 256
"""Bytes of a line table that are searched in about a microsecond at most."""
_Span = tuple[int, int]
"""Linear addresses [start, end), not empty."""


class UnitSelection(NamedTuple):
    """The units that are needed, and the linear addresses [start, end) for which they are all that is needed."""

    units: Units
    spans: Sequence[_Span]


def units_for_addresses(sections: DebugSections, units: Units, addresses: Sequence[int]) -> UnitSelection | None:
    """The units whose own ranges (DW_AT_ranges, or DW_AT_low_pc with DW_AT_high_pc) hold one of ``addresses``, and all
    units that state none. None where that leaves out nothing, or where what is left out could matter: an address that
    no unit claims, code that two claim, names that are in another unit, a line table with code outside its unit or of
    several units."""
    spans = _spans_of_units(sections, units.units)
    holders = [{n for n, each in spans.items() if any(start <= at < end for start, end in each)} for at in addresses]
    if not all(holders):
        return None
    held = set().union(*holders)
    chosen = [unit for unit in units.units if unit.number not in spans or unit.number in held]
    passed = [unit for unit in units.units if unit.number in spans and unit.number not in held]
    tables = {unit.stmt_list for unit in chosen} - {None}
    others = [unit.stmt_list for unit in passed if unit.stmt_list is not None]
    if not passed or len(set(others)) < len(others) or not tables.isdisjoint(others) or _refer_elsewhere(chosen):
        return None
    is_zero_dropped = all(start > 0 for each in spans.values() for start, _ in each)
    if not all(_begins_inside(sections, unit, spans[unit.number], is_zero_dropped) for unit in passed):
        return None
    mine = [span for unit in chosen for span in spans.get(unit.number, ())]
    if _overlap(mine, [span for unit in passed for span in spans[unit.number]]):
        return None
    kept = tuple(unit.changed(number=number) for number, unit in enumerate(chosen))
    skipped = frozenset(unit.stmt_list for unit in passed if unit.stmt_list is not None)
    return UnitSelection(units._replace(units=kept, skipped_tables=skipped), mine)


def _spans_of_units(sections: DebugSections, units: Sequence[Unit]) -> dict[int, list[_Span]]:
    """The code ranges that the first DIE of each unit states that states some, by the number of the unit."""
    rows, _ = read_rows(sections, units, (), only_first=True)
    place, ranges = rows.column("unit"), rows.ranges
    found: dict[int, list[_Span]] = {}
    for which, start, end in zip(ranges.which, ranges.start, ranges.stop, strict=True):
        found.setdefault(units[place[which]].number, []).append((start, end))
    return found


def _overlap(some: Sequence[_Span], others: Sequence[_Span]) -> bool:
    """Whether one of the first stretches shares an address with one of the others."""
    ordered = sorted(some)
    furthest = [0, *accumulate((end for _, end in ordered), max)]
    return any(furthest[bisect_left(ordered, (end,))] > start for start, end in others)


def _refer_elsewhere(chosen: Sequence[Unit]) -> bool:
    """Whether a name may be in another unit than the function."""
    return any(
        attribute.name in (At.DW_AT_abstract_origin, At.DW_AT_specification)
        and attribute.form not in forms.UNIT_REFERENCES
        for table in {id(unit.table): unit.table for unit in chosen}.values()
        if table is not None
        for abbreviation in table.every()
        for attribute in abbreviation.attributes
    )


def _begins_inside(sections: DebugSections, unit: Unit, spans: Sequence[_Span], is_zero_dropped: bool) -> bool:
    """Whether every sequence of the unit's line table begins in the unit's ranges, or where linkers put what they
    dropped. Bytes that look like DW_LNE_set_address count as one."""
    data, at = sections.lines.data, unit.stmt_list
    if at is None or len(data) < at + 4:
        return True
    # 64-bit tables begin with the largest number.
    end = min(at + 4 + int.from_bytes(data[at : at + 4], "little"), len(data))
    sections.spend((end - at) // _BYTES_A_STEP, sections.lines.name)
    ordered = sorted(spans)
    furthest = [*accumulate((last for _, last in ordered), max)]
    size = unit.widths.address
    top = 1 << 8 * size
    dropped = {top - 1, top - 2, 0} if is_zero_dropped else {top - 1, top - 2}
    for place in places_of_set_address(data, at, end, size):
        address = int.from_bytes(data[place : place + size], "little")
        before = bisect_left(ordered, (address + 1,))
        if address not in dropped and not (before and address <= furthest[before - 1]):
            return False
    return True
