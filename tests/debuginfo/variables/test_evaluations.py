"""What an expression said is said again without evaluating it, where nothing but the expression decides; and counts as much."""

from __future__ import annotations

from dataclasses import replace

import pytest

from symd.debuginfo.dwarf.forms import Widths
from symd.debuginfo.dwarf.variable_constants import Op
from symd.debuginfo.variables import lanes
from symd.debuginfo.variables.lanes import Evaluations, evaluate
from symd.debuginfo.variables.machine import ExpressionContext, StepBudget
from symd.model.code import Vendor

REGISTER = bytes([Op.DW_OP_reg0])
SUM = bytes([Op.DW_OP_lit0 + 1, Op.DW_OP_lit0 + 2, Op.DW_OP_plus, Op.DW_OP_stack_value])
FRAME = bytes([Op.DW_OP_fbreg, 4])
CALL = bytes([Op.DW_OP_call2, 9, 0])
INDEXED = bytes([Op.DW_OP_addrx, 1])


def context(**fields) -> ExpressionContext:
    return ExpressionContext(Vendor.AMD, Widths(4, 8, 8), **fields)


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The expressions that were evaluated and not remembered."""
    seen = []

    def watched(expression, *rest):
        seen.append(expression)
        return evaluate(expression, *rest)

    monkeypatch.setattr(lanes, "evaluate", watched)
    return seen


@pytest.mark.parametrize("expression", [REGISTER, SUM])
def test_what_the_expression_alone_says_is_evaluated_once(expression: bytes, evaluated: list[bytes]) -> None:
    kept = Evaluations()
    said = [kept.evaluate(expression, context(), 16) for _ in range(3)]
    assert said == [evaluate(expression, context(), 16)] * 3
    assert evaluated == [expression]


def test_lanes_and_widths_are_told_apart(evaluated: list[bytes]) -> None:
    kept = Evaluations()
    for widths in (Widths(4, 8, 8), Widths(4, 4, 4)):
        for count in (8, 16, None):
            asked = replace(context(), widths=widths)
            assert kept.evaluate(SUM, asked, count) == evaluate(SUM, asked, count)
    assert len(evaluated) == 6


@pytest.mark.parametrize(
    ("expression", "name", "values"),
    [
        (FRAME, "frame_base", (REGISTER, bytes([Op.DW_OP_reg0 + 1]))),
        (CALL, "called", (REGISTER, bytes([Op.DW_OP_reg0 + 1]))),
        (INDEXED, "address", (16, 32)),
    ],
)
def test_what_depends_on_more_is_evaluated_anew(expression: bytes, name: str, values: tuple) -> None:
    kept = Evaluations()
    contexts = [context(**{name: lambda *_, value=value: value}) for value in values]
    first, second = (kept.evaluate(expression, each, 16) for each in contexts)
    assert [first, second] == [evaluate(expression, each, 16) for each in contexts]
    assert first != second


def test_what_is_remembered_counts_as_if_it_were_evaluated() -> None:
    kept = Evaluations()
    budgets = [StepBudget(10) for _ in range(2)]
    for budget in budgets:
        for _ in range(2):
            kept.evaluate(SUM, context(step_budget=budget), 16)
    assert [budget.steps for budget in budgets] == [2, 2]
    [ended] = kept.evaluate(SUM, context(step_budget=budgets[0]), 16)
    assert "does not come to an end" in ended.error
    assert kept.evaluate(SUM, context(), 16) == evaluate(SUM, context(), 16)


def test_so_many_are_kept(evaluated: list[bytes]) -> None:
    kept = Evaluations(_left=5)
    for _ in range(2):
        for each in (REGISTER, SUM):
            kept.evaluate(each, context(), 16)
    assert evaluated == [REGISTER, SUM, SUM]
