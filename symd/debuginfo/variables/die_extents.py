"""Where the DIEs with children begin and end: enough to step over a subtree and to find what is around a DIE, without
reading any attribute."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from symd.dwarf import die_split, tree
from symd.dwarf.abbreviations import AbbreviationTables
from symd.dwarf.die_split import NULL, DieColumns
from symd.dwarf.sections import DebugSections
from symd.dwarf.units import Unit, Units
from symd.errors import Malformed
from symd.model.columns import I64, U8


@dataclass(frozen=True, slots=True)
class DieExtents:
    """The DIEs that have children, and every function and inlined call: equally long columns in the order of
    ``.debug_info``.

    ``at`` is where each begins, ``end`` where its subtree ends (``at`` itself where it has no children), ``attributes``
    where its attributes begin; ``abbreviation`` is its abbreviation's number, ``unit`` its unit's number, ``parent``
    the row of the DIE around it, or -1. ``notes`` name units that were left out.
    """

    at: I64
    end: I64
    attributes: I64
    abbreviation: NDArray[np.int32]
    unit: I64
    parent: I64
    notes: tuple[str, ...] = ()

    def around(self, at: int, most: int) -> list[int]:
        """Where the ``most`` nearest DIEs around ``at`` begin, innermost first."""
        slot = int(np.searchsorted(self.at, at)) - 1
        found: list[int] = []
        while slot >= 0 and len(found) < most:
            if self.end[slot] > at:
                found.append(int(self.at[slot]))
            slot = int(self.parent[slot])
        return found


def read(sections: DebugSections, units: Units) -> DieExtents:
    """The extents of all units; one whose tree cannot be followed is left out with a note."""
    u8 = np.frombuffer(sections.info.data, np.uint8)
    parts: list[list[I64]] = []
    notes: list[str] = []
    sections.spend(sum(unit.end - unit.dies for unit in units.units), sections.info.name)
    for unit in units.units:
        try:
            dies = die_split.split(sections.info, u8, unit, units.abbreviation_tables)
            parts.append(_columns(unit, dies, units.abbreviation_tables, u8))
        except Malformed as error:
            notes.append(f"{sections.info.name}+{unit.offset:#x}: unit left out: {error}")
    none = [np.zeros(0, np.int64)] * 6
    at, end, attributes, abbreviation, unit_number, depth = (
        np.concatenate(column) for column in zip(none, *parts, strict=True)
    )
    parent = tree.enclosing(depth.astype(np.int32), end > at, np.ones(len(at), np.bool_))
    return DieExtents(at, end, attributes, abbreviation.astype(np.int32), unit_number, parent, tuple(notes))


def _columns(unit: Unit, dies: DieColumns, abbreviations: AbbreviationTables, u8: U8) -> list[I64]:
    real = np.flatnonzero(dies.abbreviation != NULL)
    at, depth, abbreviation = dies.at[real], dies.depth[real].astype(np.int64), dies.abbreviation[real].astype(np.int64)
    has_children = np.array([one.has_children for one in abbreviations.all], np.bool_)[abbreviation]
    closed_end, closed_level = _closings(unit, dies, u8)
    ends = np.where(has_children, _ends(at, depth, closed_end, closed_level, unit.end), at)
    return [at, ends, dies.attributes[real], abbreviation, np.full(len(real), unit.number, np.int64), depth]


def _closings(unit: Unit, dies: DieColumns, u8: U8) -> tuple[I64, I64]:
    """The null entries: where each ends, and the level of the DIE whose children it ends. One entry of ``dies`` may
    stand for the zero bytes after it too."""
    nulls = np.flatnonzero(dies.abbreviation == NULL)
    after, depth = dies.attributes[nulls], dies.depth[nulls].astype(np.int64)
    other = np.flatnonzero(u8[unit.dies : unit.end]) + unit.dies
    zeros = np.append(other, unit.end)[np.searchsorted(other, after)] - after
    count = np.clip(zeros + 1, 0, np.maximum(depth, 0))
    step = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    ends, first = np.unique(np.repeat(after, count) + step, return_index=True)
    return ends, (np.repeat(depth, count) - 1 - step)[first]


def _ends(at: I64, depth: I64, closed_end: I64, closed_level: I64, last: int) -> I64:
    """Where the subtree of every DIE with children ends: on its level, the null entry that closes it is what comes
    next."""
    count = len(at)
    place = np.concatenate([at, closed_end - 1])
    level = np.concatenate([depth, closed_level])
    end = np.concatenate([at, closed_end])
    if not len(place):
        return at
    order = np.lexsort((place, level))
    following = np.append(order[1:], -1)
    known = np.append(level[order[1:]] == level[order[:-1]], False)
    ends = np.full(len(place), last, np.int64)
    ends[order[known]] = end[following[known]]
    return ends[:count]
