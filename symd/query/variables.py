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

CodeObjects = Callable[[], Sequence[CodeObject]]
"""Opens the module again; called only when the query names a place."""


def variables(index: Index, query: Query, codes: CodeObjects, path: str | None = None) -> InScope:
    """The variables in scope at one place; ``path`` restricts the query to one code object.

    A query without a place has the reason that ``symbolize`` gives it; debug data that cannot be trusted has MALFORMED,
    with the reason's text in the notes. Raises ObjectNotFound when there is no code object at ``path``.
    """
    at = symbolize(index, [query], path)[0]
    if at.section_index is None or at.section_offset is None:
        return InScope(at)
    code = next((code for code in codes() if code.path == at.path), None)
    if code is None:
        raise ObjectNotFound.at(at.path or "")
    try:
        return InScope(at, visible_at(code, at.section_index, at.section_offset))
    except SymdError as error:
        return InScope(at._replace(reason=Reason.MALFORMED), Visible(notes=(str(error),)))
