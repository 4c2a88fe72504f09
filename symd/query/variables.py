"""Which variables are in scope at an address, of what type, and where does each live? The place is found in the index;
the debug data about variables, which no index holds, is read from the code object itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from symd.config import DEFAULT_LIMITS, Limits
from symd.debuginfo.variables.visible import VariableReader
from symd.errors import ObjectNotFound, SymdError
from symd.index import Index
from symd.model.addresses import Query
from symd.model.answers import Frame, Reason
from symd.model.code import CodeObject
from symd.model.variables import InScope, Variable, Visible
from symd.query.query_budget import QueryBudget
from symd.query.symbolize import symbolize

NOBODYS = (
    "the debug data contradicts itself here: whose code this is, and so which variables are in scope, is not known"
)
_READ_OTHERWISE = (Reason.CONTRADICTORY, Reason.INFERRED)
ReadVisible = Callable[[str, int, int], Visible | str]
"""Reads the module's bytes: the variables in scope in a code object (its path), at a section index and an offset in that
section; text where its debug data cannot be trusted: why. Called only when the query names a place."""


def variables(
    index: Index, query: Query, read: ReadVisible, path: str | None = None, effort: QueryBudget | None = None
) -> InScope:
    """The variables in scope at one place; ``path`` restricts the query to one code object.

    A query without a place has the reason that ``symbolize`` gives it; debug data that cannot be trusted has MALFORMED,
    with the reason's text in the notes. Raises as ``symbolize``.
    """
    at = symbolize(index, [query], path, effort)[0]
    if at.section_index is None or at.section_offset is None:
        return InScope(at)
    if at.reason is Reason.CONTRADICTORY and not at.frames:
        return InScope(at, Visible(notes=(NOBODYS,)))
    visible = read(at.path or "", at.section_index, at.section_offset)
    if isinstance(visible, str):
        return InScope(at._replace(reason=Reason.MALFORMED), Visible(notes=(visible,)))
    return InScope(at, _of_frames(visible, at.frames) if at.reason in _READ_OTHERWISE else visible)


def _of_frames(visible: Visible, frames: Sequence[Frame]) -> Visible:
    """What belongs to these frames, which are others than the scopes around the place as written: the variables of scopes that are none
    of them are left out. Both go from the innermost outwards."""
    kept: list[Variable] = []
    called = [(each.function, each.linkage_name) for each in frames]
    scope, first, is_frame = None, 0, True
    for each in visible.variables:
        if each.kind != "global" and scope != (each.function, each.inlined):
            scope = each.function, each.inlined
            at = next((at for at in range(first, len(called)) if each.function in (None, *called[at])), None)
            first, is_frame = (first, False) if at is None else (at + 1, True)
        if each.kind == "global" or is_frame:
            kept.append(each)
    return replace(visible, variables=tuple(kept))


class VisibleIn:
    """What is visible in one code object. Opening its debug data takes far longer than most questions about it, so it is
    opened once. Not for several threads at once."""

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


def visible_in(codes: Iterable[CodeObject], path: str, section: int, offset: int) -> Visible | str:
    """``ReadVisible`` over code objects that are open. Raises ObjectNotFound."""
    return VisibleIn(first_at(codes, path)).at(section, offset)


def first_at(codes: Iterable[CodeObject], path: str) -> CodeObject:
    """The first code object at ``path``. Raises ObjectNotFound."""
    code = next((code for code in codes if code.path == path), None)
    if code is None:
        raise ObjectNotFound.at(path)  # of a large module not all are known
    return code
