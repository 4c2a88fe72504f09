"""Which variables are in scope at an address, of what type, and where does each live? The place is found in the index;
the debug data about variables, which no index holds, is read from the code object itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice

from symd.config import DEFAULT_LIMITS, Limits
from symd.debuginfo.variables.visible import VariableReader
from symd.errors import ObjectNotFound, SymdError
from symd.index import Index
from symd.model.addresses import Query
from symd.model.answers import Answer, Reason
from symd.model.code import CodeObject
from symd.model.variables import InScope, Variable, Visible
from symd.query.query_budget import QueryBudget
from symd.query.scope_frames import match
from symd.query.symbolize import symbolize

NOBODYS = (
    "the debug data contradicts itself here: whose code this is, and so which variables are in scope, is not known"
)
_NAMED = 4
"""Functions that one note names."""
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
    return InScope(at, _of_frames(visible, at))


def _of_frames(visible: Visible, at: Answer) -> Visible:
    """The variables with the numbers of their frames. Where frames are others than the scopes around the place as written, the variables of
    functions that are none of them are left out."""
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
