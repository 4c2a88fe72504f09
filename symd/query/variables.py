"""The variables in scope at an address, with their types and locations. The place is found in the index; the debug data
about variables, which no index holds, is read from the code object itself.

Frames come from the index, which may have reconciled, added or left out some, functions from the scopes of the debug
data; both go from the innermost outward, and are matched here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from symd.config import DEFAULT_LIMITS, Limits
from symd.debuginfo.variables.visible import VariableReader
from symd.errors import ObjectNotFound, SymdError
from symd.model.answers import Answer, Frame, Reason
from symd.model.code import CodeObject
from symd.model.variables import FunctionScope, InScope, Variable, Visible

_MAX_PAIRS = 10_000
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
    if most * count > _MAX_PAIRS:
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


NOBODYS = (
    "the debug data contradicts itself here: whose code this is, and so which variables are in scope, is not known"
)
_NAMED = 4
"""Functions that one note names."""
_READ_OTHERWISE = (Reason.CONTRADICTORY, Reason.INFERRED)


def place_to_read(at: Answer) -> tuple[str, int, int] | None:
    """The code object, the section and the offset at which debug data about variables is read for an answer; None where
    none is."""
    if at.section_index is None or at.section_offset is None or _is_nobodys(at):
        return None
    return at.path or "", at.section_index, at.section_offset


def _is_nobodys(at: Answer) -> bool:
    return at.reason is Reason.CONTRADICTORY and not at.frames


def in_scope(at: Answer, visible: Visible | str | None) -> InScope:
    """What is in scope at the place of an answer, as it was read there, or None."""
    if visible is None:
        return InScope(at, Visible(notes=(NOBODYS,))) if _is_nobodys(at) else InScope(at)
    if isinstance(visible, str):
        return InScope(at._replace(reason=Reason.MALFORMED), Visible(notes=(visible,)))
    return InScope(at, _of_frames(visible, at))


def _of_frames(visible: Visible, at: Answer) -> Visible:
    """The variables with the numbers of their frames. Where frames are others than the scopes around the place as
    written, the variables of functions that are none of them are left out."""
    matched = match(visible.functions, at.frames)
    kept: list[Variable] = []
    nobodys: dict[str, None] = {}
    for each in visible.variables:
        if each.frame is None:
            kept.append(each)
            continue
        frame, is_uncertain = matched[each.frame]
        if frame is None and not is_uncertain and at.reason in _READ_OTHERWISE:
            continue
        if frame is None:
            nobodys.setdefault(each.function or "a function without a name")
        kept.append(each if frame == each.frame else replace(each, frame=frame))
    notes = visible.notes
    if nobodys:
        shown = ", ".join([*islice(nobodys, _NAMED)]) + (", ..." if len(nobodys) > _NAMED else "")
        notes = (*notes, f"which frame the variables of {shown} belong to is not certain")
    return replace(visible, variables=tuple(kept), notes=notes, functions=())


class VisibleIn:
    """What is visible in one code object. Opening its debug data takes far longer than most questions about it, so it
    is opened once. Not for several threads at once."""

    def __init__(self, code: CodeObject, limits: Limits = DEFAULT_LIMITS) -> None:
        self.code = code
        self._reader: VariableReader | None = None
        self._why_not = ""
        try:
            self._reader = VariableReader(code, limits)
        except SymdError as error:
            self._why_not = str(error)

    def at(self, section: int, offset: int) -> Visible | str:
        """The variables in scope at a section index and an offset in that section; text where the debug data cannot
        be trusted: why."""
        if self._reader is None:
            return self._why_not
        try:
            return self._reader.at(section, offset)
        except SymdError as error:
            return str(error)


def first_at(codes: Iterable[CodeObject], path: str) -> CodeObject:
    """The first code object at ``path``. Raises ObjectNotFound."""
    code = next((code for code in codes if code.path == path), None)
    if code is None:
        raise ObjectNotFound.at(path)  # of a large module not all are known
    return code
