"""The text of a run of lanes: its template with the leaves filled in by their rules."""

from __future__ import annotations

from collections.abc import Sequence

from symd.debuginfo.variables.lane_template import LaneTemplate, Leaf, OperandNames
from symd.debuginfo.variables.lanes import Rule, rule_of


def run_text(run: Sequence[LaneTemplate], first: int, names: OperandNames) -> str:
    """The text for the lanes of one run, of which ``first`` is the number of the first."""
    columns = list(zip(*(one.leaves for one in run), strict=True))
    rules = [rule_of(column) or Rule(0) for column in columns]
    text = run[0].parts[0]
    for column, rule, part in zip(columns, rules, run[0].parts[1:], strict=True):
        text += _leaf_text(column[0], rule, first, names) + part
    return text + _per_lane([(column[0], rule) for column, rule in zip(columns, rules, strict=True)])


def _leaf_text(leaf: Leaf, rule: Rule, first: int, names: OperandNames) -> str:
    if leaf.kind == "bits":
        register, start, size = leaf.values
        return f"{names.register(register).text}[{start}:{start + size}]"
    if leaf.kind == "register":
        return names.register(leaf.values[0]).text
    base = leaf.values[0] - rule.step * first
    lanes = "" if not rule.step else f" {'-' if rule.step < 0 else '+'} {abs(rule.step)}*lane"
    if leaf.kind == "constant" and not rule.step:
        return names.reading.text(base.to_bytes(leaf.values[1], "little"))
    if leaf.kind == "offset":
        return (f" {'-' if base < 0 else '+'} {_number(abs(base))}" if base else "") + lanes
    return (hex(base) if leaf.kind == "address" else _number(base)) + lanes


def _number(value: int) -> str:
    return str(value) if abs(value) < 1 << 16 else hex(value)


def _per_lane(leaves: Sequence[tuple[Leaf, Rule]]) -> str:
    """What the text ends with when registers differ from lane to lane."""
    moving = [
        (leaf, rule) for leaf, rule in leaves if (rule.step and leaf.kind in ("bits", "register")) or rule.registers
    ]
    if not moving:
        return ""
    if any(rule.registers for _, rule in moving):
        return " per lane, a register each"
    apart = {rule.step for leaf, rule in moving if rule.step != leaf.values[2]}
    return " per lane" + (f", {'/'.join(map(str, sorted(apart)))} bits apart" if apart else "")
