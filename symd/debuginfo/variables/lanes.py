"""What SIMD lanes have in common: the lanes are cut into runs, in which every leaf of the text stays or grows by a
fixed step from lane to lane."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from symd.debuginfo.variables.lane_template import LaneTemplate, Leaf


class Rule(NamedTuple):
    """How a leaf goes on from lane to lane: by ``step``, which counts bits, registers or what its number counts; 0
    where it stays. ``registers`` says that each lane has a register of its own."""

    step: int
    registers: bool = False


def runs(templates: Sequence[LaneTemplate]) -> list[tuple[int, int]]:
    """The lanes as consecutive runs ``[start, end)``: each, from the first on, as long as one rule for every leaf
    lasts."""
    found = []
    start = 0
    while start < len(templates):
        end = start + _longest(templates[start:])
        found.append((start, end))
        start = end
    return found


def rule_of(column: Sequence[Leaf]) -> Rule | None:
    """The rule of one leaf over the lanes of a run; None when it follows none."""
    values = [leaf.values for leaf in column]
    if all(value == values[0] for value in values):
        return Rule(0)
    if column[0].kind == "bits":
        return _bits_rule(values)
    step = values[1][0] - values[0][0]
    regular = all(b[0] - a[0] == step for a, b in itertools.pairwise(values))
    return Rule(step, column[0].kind == "register") if regular and step else None


def _longest(templates: Sequence[LaneTemplate]) -> int:
    """How many from the first on follow one rule. The start of a regular run is regular, so doubling and halving find
    it."""
    good, bad = 1, 2
    while bad <= len(templates) and _regular(templates[:bad]):
        good, bad = bad, 2 * bad
    bad = min(bad, len(templates) + 1)
    while bad - good > 1:
        middle = (good + bad) // 2
        if _regular(templates[:middle]):
            good = middle
        else:
            bad = middle
    return good


def _regular(run: Sequence[LaneTemplate]) -> bool:
    if any(one.parts != run[0].parts or _kinds(one) != _kinds(run[0]) for one in run):
        return False
    return all(rule_of(column) is not None for column in zip(*(one.leaves for one in run), strict=True))


def _kinds(lane_template: LaneTemplate) -> list[str]:
    return [leaf.kind for leaf in lane_template.leaves]


def _bits_rule(values: Sequence[tuple[int, ...]]) -> Rule | None:
    """Bits go on by a fixed step in one register and then from the start of the next, or a register each lane."""
    register, start, size = values[0]
    step = values[1][1] - start if values[1][0] == register else 0
    if step < 0:
        return None
    for (r, s, _), (next_r, next_s, next_size) in itertools.pairwise(values):
        on = next_r == r and next_s - s == step
        over = next_r == r + 1 and (next_s < step if step else next_s == start)
        if next_size != size or not (over or (on and step)):
            return None
    return Rule(step, registers=not step)
