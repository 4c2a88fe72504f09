"""DIEs of an object's units as columns: the core's arrays, seen by NumPy."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

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


class RangeRows(NamedTuple):
    """The addresses [start, end) of DIEs, in order; ``which`` is the number of each one's DIE. None is empty."""

    which: I64
    start: U64
    end: U64


class DieColumns(NamedTuple):
    """DIEs in the order of ``.debug_info``: equally long columns, as ``symd.core.dies.DieRows`` has them, but that places are signed, ``parent`` is NO_ROW
    where there is none, and ``ranges`` are the code of all. ``left_out`` are the units that cannot be followed, each by its place among the units, and what is wrong
    with it."""

    place: I64
    place_after: I64
    name: U64
    unit: U32
    parent: I64
    depth: U32
    tag: U32
    flags: U32
    ranges: RangeRows
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
) -> DieColumns:
    """``read_rows``, seen by NumPy."""
    rows, left_out = read_rows(sections, units, tags, with_children=with_children, only_first=only_first)
    return _columns(rows, left_out)


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


def _columns(rows: DieRows, left_out: Sequence[tuple[int, Malformed]]) -> DieColumns:
    def wide(name: str) -> U64:
        return np.frombuffer(rows.column(name), np.uint64)

    def narrow(name: str) -> U32:
        return np.frombuffer(rows.column(name), np.uint32)

    ranges = rows.ranges
    return DieColumns(
        wide("place").view(np.int64),
        wide("place_after").view(np.int64),
        wide("name"),
        narrow("unit"),
        narrow("parent").astype(np.int64) - 1,
        narrow("depth"),
        narrow("tag"),
        narrow("flags"),
        RangeRows(
            np.frombuffer(ranges.which, np.uint32).astype(np.int64),
            np.frombuffer(ranges.start, np.uint64),
            np.frombuffer(ranges.stop, np.uint64),
        ),
        left_out,
    )
