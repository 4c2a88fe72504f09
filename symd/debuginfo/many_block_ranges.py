"""``block_ranges`` of many small units at once. Raises Malformed where one of them is unusual in anything: ``block_ranges`` is
the reference."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from symd.dwarf import DebugSections, Unit, tree
from symd.dwarf.abbreviations import Abbreviation
from symd.dwarf.attributes import AttributeReader
from symd.dwarf.bulk_read import Positions
from symd.dwarf.constants import At, Form, Tag
from symd.dwarf.die_split import NULL
from symd.dwarf.scopes import code_ranges
from symd.dwarf.small_objects import JoinedObjects
from symd.errors import Malformed
from symd.model.columns import I64, U8, U64

_OTHER, _FUNCTION, _BLOCK, _VARIABLE = range(4)
_KINDS: dict[int, int] = {
    Tag.DW_TAG_subprogram: _FUNCTION,
    Tag.DW_TAG_lexical_block: _BLOCK,
    Tag.DW_TAG_variable: _VARIABLE,
    Tag.DW_TAG_formal_parameter: _VARIABLE,
}
_BLOCKS = frozenset(
    {Form.DW_FORM_exprloc, Form.DW_FORM_block, Form.DW_FORM_block1, Form.DW_FORM_block2, Form.DW_FORM_block4}
)
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
    dies, unit = joined.dies(places, _matters)
    if int(dies.depth.max(initial=0)) > _DEEPEST:
        raise Malformed("DIEs are deep", where=joined.sections.info.name)
    real = np.flatnonzero(dies.abbreviation != NULL)
    dies, unit = type(dies)(*(column[real] for column in dies)), unit[real]
    every = joined.abbreviations.all
    kind = np.array([_KINDS.get(each.tag, _OTHER) for each in every], np.uint8)[dies.abbreviation]
    children = np.array([each.has_children for each in every], np.bool_)[dies.abbreviation]
    owner = _owners(kind, tree.enclosing(dies.depth, children, np.ones(len(kind), np.bool_)))
    reader = joined.reader()
    which = np.flatnonzero((kind == _FUNCTION) | ((kind == _BLOCK) & (owner >= 0)))
    found = reader.read(every, dies.abbreviation[which], dies.attributes[which], unit[which])
    ranges, bad = code_ranges(joined.sections, reader, found, unit[which])
    if bad or reader.missing:
        raise Malformed("something is left out", where=joined.sections.info.name)
    die = which[ranges.which]
    own = _extents(len(kind), die, ranges.start, ranges.end)
    of_block = kind[die] == _BLOCK
    variables = np.flatnonzero((kind == _VARIABLE) & (owner >= 0))
    live = np.array(
        [*_live(joined, sections, reader, every, dies.abbreviation, dies.attributes, unit, variables)], np.uint64
    )
    live = live.reshape(-1, 3)
    holder = np.concatenate([owner[die[of_block]], owner[live[:, 0].astype(np.int64)]])
    start = np.concatenate([ranges.start[of_block], live[:, 1]])
    end = np.concatenate([ranges.end[of_block], live[:, 2]])
    return _outside(unit[holder], start, end, own[0][holder], own[1][holder])


def _matters(abbreviation: Abbreviation) -> bool:
    return abbreviation.has_children or abbreviation.tag in _KINDS


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
    joined: JoinedObjects,
    sections: Sequence[DebugSections],
    reader: AttributeReader,
    every: Sequence[Abbreviation],
    abbreviation: Positions,
    attributes: Positions,
    unit: I64,
    variables: Positions,
) -> Iterator[tuple[int, int, int]]:
    """(variable, start, end) of each entry of the lists that say where variables are."""
    left = _MOST_ENTRIES
    for number in np.unique(abbreviation[variables]).tolist():
        those = variables[abbreviation[variables] == number]
        stated = reader.stated(At.DW_AT_location, every[number], attributes[those])
        if stated is None or stated[0] in _BLOCKS:
            continue
        form, offsets = stated
        for variable, place, offset in zip(those.tolist(), unit[those].tolist(), offsets.tolist(), strict=True):
            own = joined.units[place]
            if form != Form.DW_FORM_sec_offset or own.version >= 5:
                raise Malformed("a location is unusual", where=joined.sections.info.name)
            for start, end in _entries(sections[int(joined.object_of_unit[place])], own, offset):
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
