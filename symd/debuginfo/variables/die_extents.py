"""Where the DIEs with children begin and end, and the code of scopes: enough to step over a subtree, and to find what is around a DIE or an address."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from symd.debuginfo.dwarf.constants import Tag
from symd.debuginfo.dwarf.die_columns import RangeRows, read_dies
from symd.debuginfo.dwarf.sections import DebugSections
from symd.debuginfo.dwarf.units import Units
from symd.model.columns import I64, U32

_SCOPES = (
    Tag.DW_TAG_subprogram, Tag.DW_TAG_inlined_subroutine, Tag.DW_TAG_lexical_block, Tag.DW_TAG_try_block, Tag.DW_TAG_catch_block,
    Tag.DW_TAG_with_stmt,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class DieExtents:
    """The DIEs that have children, and every function, inlined call and block: equally long columns in the order of
    ``.debug_info``.

    ``at`` is where each begins, ``end`` where its subtree ends (``at`` itself where it has no children); ``unit`` is its unit's number, ``parent``
    the row of the DIE around it, or -1; ``ranges`` are the code of all. ``notes`` name units that were left out.
    """

    at: I64
    end: I64
    tag: U32
    unit: I64
    parent: I64
    ranges: RangeRows
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
    sections.spend(sum(unit.end - unit.dies for unit in units.units), sections.info.name)
    dies = read_dies(sections, units.units, _SCOPES, with_children=True)
    notes = [
        f"{sections.info.name}+{units.units[place].offset:#x}: unit left out: {error}" for place, error in dies.left_out
    ]
    unit = np.array([each.number for each in units.units], np.int64)[dies.unit]
    return DieExtents(dies.place, dies.place_after, dies.tag, unit, dies.parent, dies.ranges, tuple(notes))
