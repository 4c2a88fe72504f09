"""A location expression evaluated for every SIMD lane that shares the code.

Compilers write few expressions for many addresses, so results are kept. Only what follows from the expression alone is
kept: an expression that reads the function's frame base, an entry of .debug_addr or another DIE is evaluated again. The
operations of a kept result are counted each time it is used, so that no answer depends on those before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from symd.debuginfo.dwarf.forms import Cursor, Widths
from symd.debuginfo.dwarf.variable_constants import Op
from symd.debuginfo.variables.machine import WHERE, ExpressionContext, Machine, Piece
from symd.debuginfo.variables.operations import AMD_OPERATIONS, INTEL_OPERATIONS, OPERATIONS
from symd.errors import Malformed, Unsupported
from symd.model.code import Vendor

MOST_LANES = 64
"""Lanes that an expression is evaluated for."""


UNKNOWN_LANES = 32
"""Lanes where the debug data does not say how many there are."""


_CONSTANT_SIZES: Mapping[int, int] = {
    **{Op.DW_OP_lit0 + number: 1 for number in range(32)},
    **{Op.DW_OP_const1u + at: 1 + (1 << at // 2) for at in range(8)},
}
"""Bytes of the operations that push a number, without those that push one in LEB128."""


_BY_VENDOR = {Vendor.INTEL: INTEL_OPERATIONS, Vendor.AMD: AMD_OPERATIONS}


class LaneLocation(NamedTuple):
    """Where a variable is for one lane: its pieces, lowest bits first, and why they are not all there ("" when they
    are). No pieces and no reason: it is nowhere."""

    pieces: tuple[Piece, ...]
    error: str = ""


def evaluate(expression: bytes, context: ExpressionContext, lanes: int | None) -> list[LaneLocation]:
    """The location for each lane, or one alone where it is the same for all, as the expression does not ask for the
    lane. ``lanes`` None: not known, taken for 32."""
    first, uses_lane = _one(expression, context, 0)
    if not uses_lane:
        return [first]
    count = min(lanes or UNKNOWN_LANES, MOST_LANES)
    return [first, *(_one(expression, context, lane)[0] for lane in range(1, count))]


def is_one_constant(expression: bytes) -> bool:
    """Whether the expression does nothing but push one number."""
    code = expression[0] if expression else 0
    if code in (Op.DW_OP_constu, Op.DW_OP_consts):
        return len(expression) > 1 and [byte >> 7 for byte in expression[1:]] == [*[1] * (len(expression) - 2), 0]
    return len(expression) == _CONSTANT_SIZES.get(code)


def _one(expression: bytes, context: ExpressionContext, lane: int) -> tuple[LaneLocation, bool]:
    operations = _BY_VENDOR.get(context.vendor, OPERATIONS)
    machine = Machine(context, operations, Cursor(expression, WHERE, 0, len(expression)), lane)
    why = ""
    try:
        machine.run()
        rest = machine.rest()
    except Unsupported as unknown:
        rest, why = [], unknown.message
    except Malformed as error:
        rest, why = [], f"unreadable: {error.message}"
    return LaneLocation((*machine.pieces, *rest), why), machine.uses_lane


MOST_KEPT = 1 << 16
"""Operations whose results are kept, which bound their size, and bytes of expressions; what comes after is evaluated
each time."""

_Key = tuple[Widths, bytes, int | None, bool]


class _Kept(NamedTuple):
    locations: Sequence[LaneLocation]
    steps: int


@dataclass(slots=True)
class Evaluations:
    """What the location expressions of one code object evaluated to. Not for several threads at once."""

    _kept: dict[_Key, _Kept] = field(default_factory=dict)
    _room: int = MOST_KEPT

    def evaluate(self, expression: bytes, context: ExpressionContext, lanes: int | None) -> Sequence[LaneLocation]:
        """The location for each lane, as ``expression.evaluate`` gives it, kept where it does not depend on the
        address."""
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
