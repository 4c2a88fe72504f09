"""The names of the functions that a unit gives to others, before its addresses mean anything: enough to tell whose unit
it is."""

from __future__ import annotations

from array import array

from symd.core.dies import HAS_LOW, IS_EXTERNAL
from symd.core.strings import Names, StringReader
from symd.debuginfo.dwarf.constants import Tag
from symd.debuginfo.dwarf.dies import read_rows
from symd.debuginfo.dwarf.sections import DebugSections
from symd.debuginfo.dwarf.units import Units


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
