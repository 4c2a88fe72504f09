"""Which loads of a context lie over another one: what the later of two loads covers is gone, address by address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from symd.engine.contexts.placement import reduced
from symd.engine.contexts.timeline import Timeline
from symd.model.columns import I64, U64


@dataclass(frozen=True, slots=True)
class LoadCover:
    """The segments that lie over those of one load, in a context whose addresses have ``width`` bits: of loads that
    began while it lived, or together with it. ``own`` and ``over`` are numbers of rows of the timeline."""

    timeline: Timeline
    width: int
    own: I64
    over: I64

    @classmethod
    def of(cls, timeline: Timeline, width: int, number: int) -> LoadCover:
        """What lies over the load with that number."""
        own = timeline.rows_of(number)
        over = timeline.rows_over(own)
        if len(over):
            column = timeline.column
            began = column("time")[over]
            is_later = (began >= column("time")[own[0]]) & (began < column("until")[own[0]])
            over = over[is_later & (column("load")[over] != number)]
        return cls(timeline, width, own, over)

    def at(self, address: int) -> Sequence[int]:
        """The numbers of the loads that cover a device address of the load with something else than it has there."""
        if not len(self.over):
            return ()
        low = reduced(np.array([address], np.uint64), self.width)[0]
        own, over = self._holding(self.own, low), self._holding(self.over, low)
        target, bias = self.timeline.column("target"), self.timeline.column("bias")
        is_same = np.zeros(len(over), np.bool_)
        for each in own.tolist():
            is_same |= (target[over] == target[each]) & (bias[over] == bias[each])
        numbers: list[int] = self.timeline.column("load")[over[~is_same]].tolist()
        return numbers

    def _holding(self, rows: I64, address: U64) -> I64:
        start, last = self.timeline.column("start")[rows], self.timeline.column("last")[rows]
        return rows[(start <= address) & (address <= last)]


def covered_loads(timeline: Timeline, number: int) -> list[int]:
    """The numbers of the loads that were recorded before the one with that number, and that it lies over: those that
    lived when it began. Lowest first."""
    own = timeline.rows_of(number)
    under = timeline.rows_over(own)
    if not len(under):
        return []
    column = timeline.column
    began = column("time")[own[0]]
    lived = (column("time")[under] <= began) & (column("until")[under] > began) & (column("load")[under] < number)
    found: list[int] = np.unique(column("load")[under[lived]]).tolist()
    return found
