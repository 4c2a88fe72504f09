"""The names of the functions that a unit gives to others, before its addresses mean anything: enough to tell whose unit
it is."""

from __future__ import annotations

from symd.core.dies import HAS_LOW, IS_EXTERNAL
from symd.core.strings import Names, StringReader
from symd.dwarf.constants import Tag
from symd.dwarf.dies import read_dies
from symd.dwarf.sections import DebugSections
from symd.dwarf.units import Units


def external_functions(sections: DebugSections, units: Units) -> list[tuple[str, ...]]:
    """For each unit the names of the functions directly below its first DIE that say they are external and have code,
    in order. Raises Malformed where a unit's tree cannot be followed."""
    dies = read_dies(sections, units.units, (Tag.DW_TAG_subprogram,))
    for _, error in dies.left_out:
        raise error
    wanted = (dies.depth == 1) & dies.has(IS_EXTERNAL) & dies.has(HAS_LOW) & (dies.name != 0)
    names = Names()
    number, _ = names.intern(StringReader(sections), dies.name[wanted].data)
    known = names.all()
    found: list[list[str]] = [[] for _ in units.units]
    for place, name in zip(dies.unit[wanted].tolist(), number.tolist(), strict=True):
        found[place].append(known[name])
    return [tuple(each) for each in found]
