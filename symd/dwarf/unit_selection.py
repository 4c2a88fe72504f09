"""Which units of ``.debug_info`` some addresses need, so that one question of a large object does not wait for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from symd.dwarf import forms
from symd.dwarf.constants import At, Lne
from symd.dwarf.dies import RangeRows, read_dies
from symd.dwarf.sections import DebugSections
from symd.dwarf.units import Unit, Units
from symd.model.columns import U64

_EXTENDED_OPCODE = 0
"""The opcode that begins an extended instruction of a line program (6.2.5.3); its own number follows after its length."""
_SET_ADDRESS = int(Lne.DW_LNE_set_address)


class UnitSelection(NamedTuple):
    """The units that are needed, and the linear addresses [start, end) for which they are all that is needed."""

    units: Units
    start: U64
    end: U64


def units_for_addresses(sections: DebugSections, units: Units, addresses: U64) -> UnitSelection | None:
    """The units whose own ranges (DW_AT_ranges, or DW_AT_low_pc with DW_AT_high_pc) hold one of ``addresses``, and all
    units that state none. None where that leaves out nothing, or where what is left out could matter: an address that
    no unit claims, code that two claim, names that stand in another unit, a line table with code outside its unit or of
    several units."""
    spans = unit_ranges(sections, units.units)
    held = _holders(spans, addresses)
    if held is None:
        return None
    left_out = set(spans.which.tolist()) - held
    chosen = [unit for unit in units.units if unit.number not in left_out]
    passed = [unit for unit in units.units if unit.number in left_out]
    tables = {unit.stmt_list for unit in chosen} - {None}
    if tables.intersection(unit.stmt_list for unit in passed):
        return None
    if not left_out or _refer_elsewhere(chosen) or not all(_begins_inside(sections, u, spans) for u in passed):
        return None
    mine = np.array([number in held for number in spans.which.tolist()], np.bool_)
    if _overlap(spans.start[mine], spans.end[mine], spans.start[~mine], spans.end[~mine]):
        return None
    kept = tuple(replace(unit, number=number) for number, unit in enumerate(chosen))
    skipped = frozenset(unit.stmt_list for unit in passed if unit.stmt_list is not None)
    return UnitSelection(replace(units, units=kept, skipped_tables=skipped), spans.start[mine], spans.end[mine])


def unit_ranges(sections: DebugSections, units: Sequence[Unit]) -> RangeRows:
    """The code ranges that the first DIE of each unit states, by the place of the unit."""
    found = read_dies(sections, units, (), only_first=True)
    return found.ranges._replace(which=found.unit[found.ranges.which].astype(np.int64))


def _holders(spans: RangeRows, addresses: U64) -> set[int] | None:
    """The numbers of the units that hold an address; None when nobody holds one of them."""
    found = [spans.which[(spans.start <= address) & (address < spans.end)].tolist() for address in addresses]
    return {number for numbers in found for number in numbers} if all(found) else None


def _overlap(start: U64, end: U64, other_start: U64, other_end: U64) -> bool:
    """Whether one of the first stretches shares an address with one of the others."""
    order = np.argsort(start)
    furthest = np.maximum.accumulate(np.append(np.uint64(0), end[order]))
    before = np.searchsorted(start[order], other_end)
    return bool(np.any(furthest[before] > other_start))


def _refer_elsewhere(chosen: Sequence[Unit]) -> bool:
    """Whether a name may stand in another unit than the function."""
    return any(
        attribute.name in (At.DW_AT_abstract_origin, At.DW_AT_specification)
        and attribute.form not in forms.UNIT_REFERENCES
        for unit in chosen
        if unit.table is not None
        for abbreviation in unit.table.every()
        for attribute in abbreviation.attributes
    )


def _begins_inside(sections: DebugSections, unit: Unit, spans: RangeRows) -> bool:
    """Whether every sequence of the unit's line table begins in the unit's ranges, or where linkers put what they
    dropped. Bytes that look like DW_LNE_set_address count as one."""
    data, at = sections.lines.data, unit.stmt_list
    if at is None or len(data) < at + 4:
        return True
    end = at + 4 + int.from_bytes(data[at : at + 4], "little")  # 64-bit tables begin with the largest number
    mine = spans.which == unit.number
    first, last = spans.start[mine], spans.end[mine]
    size = unit.widths.address
    top = 1 << 8 * size
    dropped = {top - 1, top - 2, 0} if np.all(spans.start > 0) else {top - 1, top - 2}
    opcode = bytes([_EXTENDED_OPCODE, size + 1, _SET_ADDRESS])
    while (at := data.find(opcode, at, end)) >= 0:
        at += len(opcode)
        address = int.from_bytes(data[at : at + size], "little")
        if address not in dropped and not np.any((first <= np.uint64(address)) & (np.uint64(address) <= last)):
            return False
    return True
