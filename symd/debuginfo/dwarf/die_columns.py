"""DIEs of an object's units as columns: the core's arrays, seen by NumPy."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from symd.core.dies import DieRows
from symd.debuginfo.dwarf.dies import read_rows
from symd.debuginfo.dwarf.sections import DebugSections
from symd.debuginfo.dwarf.units import Unit
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


def unit_ranges(sections: DebugSections, units: Sequence[Unit]) -> RangeRows:
    """The code ranges that the first DIE of each unit states, by the place of the unit."""
    found = read_dies(sections, units, (), only_first=True)
    return found.ranges._replace(which=found.unit[found.ranges.which].astype(np.int64))


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
