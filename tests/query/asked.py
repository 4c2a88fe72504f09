"""Questions as tests ask them: of one query, and of code objects that are open."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from symd.index.lookup import Index
from symd.model.addresses import Query
from symd.model.answers import Answer
from symd.model.code import CodeObject
from symd.model.variables import InScope, Visible
from symd.query.symbolize import symbolize
from symd.query.variables import VisibleIn, first_at, in_scope, place_to_read


def symbolize_one(index: Index, query: Query, path: str | None = None) -> Answer:
    """The answer to one query; where it is plain, without making a column."""
    return index.answer(query, path) or symbolize(index, [query], path)[0]


def visible_in(codes: Iterable[CodeObject], path: str, section: int, offset: int) -> Visible | str:
    """The variables at a byte of a section of one of these code objects, which are open. Raises ObjectNotFound."""
    return VisibleIn(first_at(codes, path)).at(section, offset)


def variables(
    index: Index, query: Query, read: Callable[[str, int, int], Visible | str], path: str | None = None
) -> InScope:
    """The variables in scope at one place, as an engine finds them."""
    at = symbolize_one(index, query, path)
    place = place_to_read(at)
    return in_scope(at, None if place is None else read(*place))
