"""Which variables are in scope at an address, of what type, and where does each live? The place is found in the index;
the debug data about variables, which no index holds, is read from the code object itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from symd.debuginfo.variables import Visible, visible_at
from symd.errors import ObjectNotFound, SymdError
from symd.index import Index
from symd.model.addresses import Query
from symd.model.answers import Reason
from symd.model.code import CodeObject
from symd.model.variables import InScope
from symd.query.symbolize import symbolize

ReadVisible = Callable[[str, int, int], Visible | str]
"""Reads the module's bytes: the variables in scope in a code object (its path), at a section index and an offset in that
section; text where its debug data cannot be trusted: why. Called only when the query names a place."""


def variables(index: Index, query: Query, read: ReadVisible, path: str | None = None) -> InScope:
    """The variables in scope at one place; ``path`` restricts the query to one code object.

    A query without a place has the reason that ``symbolize`` gives it; debug data that cannot be trusted has MALFORMED,
    with the reason's text in the notes. Raises ObjectNotFound when there is no code object at ``path``.
    """
    at = symbolize(index, [query], path)[0]
    if at.section_index is None or at.section_offset is None:
        return InScope(at)
    visible = read(at.path or "", at.section_index, at.section_offset)
    if isinstance(visible, str):
        return InScope(at._replace(reason=Reason.MALFORMED), Visible(notes=(visible,)))
    return InScope(at, visible)


def visible_in(codes: Sequence[CodeObject], path: str, section: int, offset: int) -> Visible | str:
    """``ReadVisible`` over code objects that are open. Raises ObjectNotFound."""
    code = next((code for code in codes if code.path == path), None)
    if code is None:
        raise ObjectNotFound.at(path)
    try:
        return visible_at(code, section, offset)
    except SymdError as error:
        return str(error)
