"""``block_ranges`` of many small units at once. Raises Malformed where one of them is unusual in anything: ``block_ranges`` is
the reference."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from symd.core.dies import LOCATION_LIST, OTHER_LOCATION
from symd.dwarf import DebugSections, Unit
from symd.dwarf.constants import Tag
from symd.dwarf.dies import NEW_LISTS, DieColumns
from symd.dwarf.small_objects import JoinedObjects
from symd.dwarf.stretches import Positions
from symd.errors import Malformed
from symd.model.columns import I64, U8, U64

_OTHER, _FUNCTION, _BLOCK, _VARIABLE = range(4)
_KINDS: dict[int, int] = {
    Tag.DW_TAG_subprogram: _FUNCTION,
    Tag.DW_TAG_lexical_block: _BLOCK,
    Tag.DW_TAG_variable: _VARIABLE,
    Tag.DW_TAG_formal_parameter: _VARIABLE,
}
_ENTRY = struct.Struct("<QQ")
"""An entry of ``.debug_loc`` begins so; the size of its expression follows."""
_MASK = (1 << 64) - 1
_DEEPEST = 64
"""DIEs inside each other; blocks are followed outwards level by level."""
_MOST_ENTRIES = 100_000
"""Entries of all lists together."""


class UnitRanges(NamedTuple):
    """Linear addresses [start, end) of the units of these places."""

    unit: I64
    start: U64
    end: U64


def outside_of_functions(joined: JoinedObjects, sections: Sequence[DebugSections], places: Sequence[int]) -> UnitRanges:
    """Those of the units at ``places``, by unit, start and end. ``sections`` are each object's own."""
    dies = joined.dies(places, _KINDS, with_children=True)
    if int(dies.depth.max(initial=0)) > _DEEPEST:
        raise Malformed("DIEs are deep", where=joined.sections.info.name)
    kind = np.zeros(len(dies.tag), np.uint8)
    for tag, number in _KINDS.items():
        kind[dies.tag == tag] = number
    owner = _owners(kind, dies.parent)
    ranges = dies.ranges
    die = ranges.which
    of_block = (kind[die] == _BLOCK) & (owner[die] >= 0)
    own = _extents(len(kind), die, ranges.start, ranges.end)
    variables = np.flatnonzero((kind == _VARIABLE) & (owner >= 0))
    live = np.array([*_live(joined, sections, dies, variables)], np.uint64).reshape(-1, 3)
    holder = np.concatenate([owner[die[of_block]], owner[live[:, 0].astype(np.int64)]])
    start = np.concatenate([ranges.start[of_block], live[:, 1]])
    end = np.concatenate([ranges.end[of_block], live[:, 2]])
    return _outside(dies.unit[holder].astype(np.int64), start, end, own[0][holder], own[1][holder])


def _owners(kind: U8, parent: I64) -> I64:
    """The function that each block and variable is in, -1 where something else than blocks stands between; the top has none."""
    of_parent = np.append(kind, _OTHER)[parent]
    owner = np.where(of_parent == _FUNCTION, parent, -1)
    inner = np.flatnonzero((of_parent == _BLOCK) & ((kind == _BLOCK) | (kind == _VARIABLE)))
    while True:
        known = owner[parent[inner]]
        if np.array_equal(known, owner[inner]):
            return owner
        owner[inner] = known


def _extents(count: int, die: Positions, start: U64, end: U64) -> tuple[U64, U64]:
    """The first byte of each DIE and the one after its last; 0 and 0 where it has no code."""
    first, last = np.full(count, _MASK, np.uint64), np.zeros(count, np.uint64)
    np.minimum.at(first, die, start)
    np.maximum.at(last, die, end)
    first[last == 0] = 0
    return first, last


def _outside(unit: I64, start: U64, end: U64, first: U64, last: U64) -> UnitRanges:
    """What of each range lies before and after that of its function."""
    before, after = start < first, end > last
    units = np.concatenate([unit[before], unit[after]])
    starts = np.concatenate([start[before], np.maximum(start, last)[after]])
    ends = np.concatenate([np.minimum(end, first)[before], end[after]])
    order = np.lexsort((ends, starts, units))
    return UnitRanges(units[order], starts[order], ends[order])


def _live(
    joined: JoinedObjects, sections: Sequence[DebugSections], dies: DieColumns, variables: Positions
) -> Iterator[tuple[int, int, int]]:
    """(variable, start, end) of each entry of the lists that say where variables are."""
    left = _MOST_ENTRIES
    if dies.has(OTHER_LOCATION)[variables].any():
        raise Malformed("a location is unusual", where=joined.sections.info.name)
    for variable in variables[dies.has(LOCATION_LIST)[variables]].tolist():
        place = int(dies.unit[variable])
        own = joined.units[place]
        if own.version >= NEW_LISTS:
            raise Malformed("a location is unusual", where=joined.sections.info.name)
        for start, end in _entries(sections[int(joined.object_of_unit[place])], own, int(dies.location[variable])):
            left -= 1
            if start < end:
                yield variable, start, end
        if left < 0:
            raise Malformed("location lists are long", where=joined.sections.info.name)


def _entries(sections: DebugSections, unit: Unit, at: int) -> Iterator[tuple[int, int]]:
    """The addresses of the entries of a list in ``.debug_loc``, as ``location_lists`` has them."""
    data, base = sections.locations.data, unit.low_pc
    while at + _ENTRY.size <= len(data):
        start, end = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size
        if not start and not end:
            return
        if start == _MASK:
            base = end
            continue
        size = int.from_bytes(data[at : at + 2], "little")
        at += 2 + size
        if at > len(data):
            break
        yield (base + start) & _MASK, (base + end) & _MASK
    raise Malformed("a location list does not end", where=sections.locations.name)
