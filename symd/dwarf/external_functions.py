"""The names of the functions that a unit gives to others, before its addresses mean anything: enough to tell whose unit
it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from symd.dwarf import die_split
from symd.dwarf.abbreviations import Abbreviation
from symd.dwarf.attributes import AttributeReader
from symd.dwarf.bulk_read import Positions
from symd.dwarf.constants import At, Tag
from symd.dwarf.sections import DebugSections
from symd.dwarf.strings import Names, StringReader
from symd.dwarf.units import Units

_STATED = frozenset({At.DW_AT_name, At.DW_AT_external, At.DW_AT_low_pc})


def external_functions(sections: DebugSections, units: Units) -> list[tuple[str, ...]]:
    """For each unit the names of the functions directly below its first DIE that say they are external and have code,
    in order. Raises Malformed where a unit's tree cannot be followed."""
    u8 = np.frombuffer(sections.info.data, np.uint8)
    strings, names = StringReader(sections), Names()
    trees = [die_split.split(sections.info, u8, unit, units.abbreviation_tables) for unit in units.units]
    reader = AttributeReader(sections, u8, units.units)
    wanted = [_wanted(dies, units.abbreviation_tables.all) for dies in trees]
    abbreviation = np.concatenate(
        [np.zeros(0, np.int32), *(dies.abbreviation[which] for dies, which in zip(trees, wanted, strict=True))]
    )
    at = np.concatenate(
        [np.zeros(0, np.int64), *(dies.attributes[which] for dies, which in zip(trees, wanted, strict=True))]
    )
    count = [len(which) for which in wanted]
    unit = np.repeat(np.arange(len(trees)), count)
    found = reader.read(units.abbreviation_tables.all, abbreviation, at, unit)
    number, _ = names.intern(strings, found.name)
    known = names.all()
    texts = [known[one] for one in number.tolist()]
    ends = np.cumsum(count).tolist()
    return [tuple(texts[end - size : end]) for end, size in zip(ends, count, strict=True)]


def _wanted(dies: die_split.DieColumns, abbreviations: Sequence[Abbreviation]) -> Positions:
    """The places among ``dies`` of external functions at the top of the unit."""
    external = np.array([_is_external(abbreviation) for abbreviation in abbreviations] + [False], np.bool_)
    found: Positions = np.flatnonzero((dies.depth == 1) & external[np.maximum(dies.abbreviation, die_split.NULL)])
    return found


def _is_external(abbreviation: Abbreviation) -> bool:
    return (
        abbreviation.tag == Tag.DW_TAG_subprogram
        and {attribute.name for attribute in abbreviation.attributes} >= _STATED
    )
