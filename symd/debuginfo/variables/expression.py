"""A location expression evaluated for every SIMD lane that shares the code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from symd.debuginfo.dwarf.forms import Cursor
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
