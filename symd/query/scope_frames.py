"""Which frame of an answer is which function around the place? Frames come from the index, which may have reconciled, added or left out
some; functions come from the scopes of the debug data. Both go from the innermost outwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from symd.model.answers import Frame
from symd.model.variables import FunctionScope

_MOST_PAIRS = 10_000
"""Pairs of a function and a frame that are compared; compilers nest some dozen calls."""
_SAME_CALL = 1
_SAME_FUNCTION = 1 << 20
"""Weights of what two have in common: one more pair counts above all."""


class Matched(NamedTuple):
    """What is known of a function's frame: its number, or None; ``uncertain`` where several could be it."""

    frame: int | None
    uncertain: bool = False


def match(functions: Sequence[FunctionScope], frames: Sequence[Frame]) -> list[Matched]:
    """For each function its frame, where every way to give most functions a frame gives it the same one."""
    most, count = len(functions), len(frames)
    if most * count > _MOST_PAIRS:
        return [Matched(None, uncertain=True)] * most
    weights = [[_weight(function, frames, at) for at in range(count)] for function in functions]
    inside = [[0] * (count + 1) for _ in range(most + 1)]
    around = [[0] * (count + 1) for _ in range(most + 1)]
    for one in range(most):
        for at in range(count):
            taken = inside[one][at] + weights[one][at] if weights[one][at] else 0
            inside[one + 1][at + 1] = max(inside[one][at + 1], inside[one + 1][at], taken)
    for one in reversed(range(most)):
        for at in reversed(range(count)):
            taken = around[one + 1][at + 1] + weights[one][at] if weights[one][at] else 0
            around[one][at] = max(around[one + 1][at], around[one][at + 1], taken)
    best = around[0][0]
    found = []
    for one in range(most):
        possible = [
            at
            for at, weight in enumerate(weights[one])
            if weight and inside[one][at] + weight + around[one + 1][at + 1] == best
        ]
        left_out = any(inside[one][at] + around[one + 1][at] == best for at in range(count + 1))
        certain = len(possible) == 1 and not left_out
        found.append(Matched(possible[0] if certain else None, uncertain=bool(possible) and not certain))
    return found


def _weight(function: FunctionScope, frames: Sequence[Frame], at: int) -> int:
    """How much speaks for frame number ``at``; 0: it is another function, or another call of it."""
    frame = frames[at]
    if function.inlined != frame.inlined or not _may_be(function, frame):
        return 0
    if not function.inlined or at + 1 == len(frames):
        return _SAME_FUNCTION
    called = function.call_line, function.call_column
    stands = frames[at + 1].line, frames[at + 1].column
    pairs = [(mine, theirs) for mine, theirs in zip(called, stands, strict=True) if mine and theirs]
    if any(mine != theirs for mine, theirs in pairs):
        return 0
    return _SAME_FUNCTION + _SAME_CALL * len(pairs)


def _may_be(function: FunctionScope, frame: Frame) -> bool:
    """Whether their names are the same, as far as both have any."""
    if function.linkage_name and frame.linkage_name:
        return function.linkage_name == frame.linkage_name
    mine, theirs = ({each for each in pair if each} for pair in ((function.name, function.linkage_name), frame[:2]))
    return not mine or not theirs or bool(mine & theirs)
