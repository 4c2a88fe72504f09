"""What location expressions said before: compilers write few of them for many addresses, and each is evaluated for every SIMD lane.

Only what follows from the expression alone is kept: one that asked for the function's frame base, an entry of .debug_addr or another DIE is evaluated
again. The operations that an answer took are counted each time, so that no answer depends on those before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from symd.debuginfo.dwarf.forms import Widths
from symd.debuginfo.variables.expression import LaneLocation, evaluate
from symd.debuginfo.variables.machine import ExpressionContext

MOST_KEPT = 1 << 16
"""Operations whose results are kept, which bound their size, and bytes of expressions; what comes after is evaluated each time."""

_Key = tuple[Widths, bytes, int | None, bool]


class _Kept(NamedTuple):
    locations: Sequence[LaneLocation]
    steps: int


@dataclass(slots=True)
class Evaluations:
    """Of one code object's expressions. Not for several threads at once."""

    _kept: dict[_Key, _Kept] = field(default_factory=dict)
    _room: int = MOST_KEPT

    def evaluate(self, expression: bytes, context: ExpressionContext, lanes: int | None) -> Sequence[LaneLocation]:
        """As ``expression.evaluate`` does."""
        key, budget = (context.widths, expression, lanes, context.without_private), context.step_budget
        kept = self._kept.get(key)
        if kept is not None and kept.steps <= budget.steps:
            budget.steps -= kept.steps
            return kept.locations
        watched, before = _Watched(context), budget.steps
        locations = evaluate(expression, watched.context, lanes)
        if not watched.asked and budget.steps >= 0:
            self._keep(key, _Kept(locations, before - budget.steps))
        return locations

    def _keep(self, key: _Key, said: _Kept) -> None:
        size = said.steps + len(key[1])
        if size <= self._room:
            self._room -= size
            self._kept[key] = said


class _Watched:
    """A context that tells whether it was ``asked`` for anything that the expression itself does not say."""

    def __init__(self, context: ExpressionContext) -> None:
        self.asked = False
        self._asks = context
        self.context = replace(
            context, address=self._address, frame_base=self._frame_base, called=self._called, name_of=self._name_of
        )

    def _address(self, index: int) -> int | None:
        self.asked = True
        return self._asks.address(index)

    def _frame_base(self) -> bytes | None:
        self.asked = True
        return self._asks.frame_base()

    def _called(self, offset: int) -> bytes | None:
        self.asked = True
        return self._asks.called(offset)

    def _name_of(self, offset: int) -> str:
        self.asked = True
        return self._asks.name_of(offset)
