"""DIEs of an object's units as columns: the core's arrays, seen by NumPy."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.core.dies import DieRows
from symd.core.range_lists import RangeRows as CoreRanges
from symd.core.range_lists import UnitParameters
from symd.dwarf.sections import DebugSections
from symd.dwarf.units import Unit
from symd.errors import Malformed
from symd.model.columns import I64, U32, U64

NO_ROW = -1
NEW_LISTS = 5
"""The version of DWARF from which on range lists stand in ``.debug_rnglists``, and location lists in ``.debug_loclists``."""
PARTS = ("info", "strings", "line_strings", "string_offsets", "addresses", "ranges", "range_lists")
"""The sections that units name places in, in the order of ``symd.core.range_lists``."""


class RangeRows(NamedTuple):
    """The addresses [start, end) of DIEs, in order; ``which`` is the number of each one's DIE. None is empty."""

    which: I64
    start: U64
    end: U64


class DieColumns(NamedTuple):
    """DIEs in the order of ``.debug_info``: equally long columns, as ``symd.core.dies.DieRows`` has them, but that places and references are signed, ``parent`` is NO_ROW
    and references are negative where there is none, and ``ranges`` are the code of all.

    ``missing`` counts indexes that lead out of a section, by its name; ``damaged_lists`` are range lists that do not end. ``left_out`` are the units that cannot be
    followed, each by its place among the units, and what is wrong with it."""

    place: I64
    place_after: I64
    name: U64
    linkage_name: U64
    origin: I64
    specification: I64
    location: U64
    unit: U32
    parent: I64
    depth: U32
    tag: U32
    flags: U32
    call_file: U32
    call_line: U32
    call_column: U32
    decl_file: U32
    decl_line: U32
    ranges: RangeRows
    missing: Mapping[str, int]
    damaged_lists: int
    left_out: Sequence[tuple[int, Malformed]]

    def has(self, flag: int) -> NDArray[np.bool_]:
        """Which of them have a bit of ``flags``, such as ``symd.core.dies.HAS_LIST``."""
        found: NDArray[np.bool_] = (self.flags & np.uint32(flag)) != 0
        return found


def read_dies(
    sections: DebugSections,
    units: Sequence[Unit],
    tags: Collection[int],
    *,
    with_children: bool = False,
    only_first: bool = False,
    parts: Sequence[array[int]] = (),
) -> DieColumns:
    """The DIEs of ``tags`` in some units, and all that have children where ``with_children``; the first of each unit where ``only_first``. A unit whose tree cannot be followed
    is left out whole.

    Where the sections are those of several objects, ``parts`` has for each unit the places between which its object's part of each section of PARTS
    lies, and Malformed is raised for whatever leads out of one, or leaves something out. Raises LimitExceeded for range lists that overlap without end, and
    for more DIEs than ``sections.budget`` has left."""
    budget, info = sections.budget, sections.info
    whole = array("Q", [edge for role in PARTS for edge in (0, len(getattr(sections, role).data))])
    counted = 0

    def check(number: int) -> None:
        if budget is not None:
            budget.check(number - counted, info.name)

    ranges_before = 0

    def check_ranges(number: int) -> None:
        if budget is not None:
            budget.check(number - ranges_before, info.name)

    lists = sections.range_lists.data
    ranges = CoreRanges(sections.ranges.data, lists, sections.addresses.data, bool(parts), check_ranges)
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
            rows.read(_parameters(unit, place, parts[place] if parts else whole), unit.table.steps, only_first)
        except Malformed as error:
            if parts:
                raise
            left_out.append((place, error))
        if budget is not None:
            budget.count(rows.count - counted, info.name)
            budget.spend(ranges.entries - entries, info.name)
        counted = rows.count
    rows.trim()
    return _columns(sections, rows, left_out)


def _parameters(unit: Unit, place: int, parts: array[int]) -> UnitParameters:
    if unit.contributions:
        ranges_base = unit.ranges_base
    else:  # DW_AT_GNU_ranges_base of a skeleton is for its split unit
        ranges_base = parts[2 * PARTS.index("range_lists" if unit.version >= NEW_LISTS else "ranges")]
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
        ranges_base,
        parts,
    )


def _columns(sections: DebugSections, rows: DieRows, left_out: Sequence[tuple[int, Malformed]]) -> DieColumns:
    def wide(column: array[int]) -> NDArray[Any]:
        return np.frombuffer(column, np.uint64)

    def signed(column: array[int]) -> NDArray[Any]:
        return np.frombuffer(column, np.int64)

    def narrow(column: array[int]) -> NDArray[Any]:
        return np.frombuffer(column, np.uint32)

    ranges = rows.ranges
    missing = {
        sections.string_offsets.name: rows.missing_offsets,
        sections.addresses.name: ranges.missing,
        sections.range_lists.name: rows.missing_lists,
    }
    return DieColumns(
        signed(rows.place),
        signed(rows.place_after),
        wide(rows.name),
        wide(rows.linkage_name),
        signed(rows.origin),
        signed(rows.specification),
        wide(rows.location),
        narrow(rows.unit),
        narrow(rows.parent).astype(np.int64) - 1,
        narrow(rows.depth),
        narrow(rows.tag),
        narrow(rows.flags),
        narrow(rows.call_file),
        narrow(rows.call_line),
        narrow(rows.call_column),
        narrow(rows.decl_file),
        narrow(rows.decl_line),
        RangeRows(narrow(ranges.which).astype(np.int64), wide(ranges.start), wide(ranges.stop)),
        missing,
        ranges.damaged,
        left_out,
    )
