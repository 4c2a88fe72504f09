"""Which code a request for a listing or a line table is about: a function by name, what is around a place, or a range
of a section."""

from __future__ import annotations

from typing import Any

from symd.errors import BadQuery
from symd.model.line_tables import MOST_AROUND, Around, CodePart
from symd.rpc.wire.answers import from_range, to_range
from symd.rpc.wire.fields import wrong_field
from symd.rpc.wire.queries import from_any_query, to_any_query


def write_within(request: Any, within: CodePart | None) -> None:
    """The part into a request that has none. Raises ``BadQuery`` for what does not fit its fields."""
    if isinstance(within, str):
        try:
            request.function = within
        except ValueError:  # also of Unicode
            raise BadQuery("this name is not UTF-8", where=within, hint="pass text that UTF-8 can say") from None
    elif isinstance(within, Around):
        request.around.CopyFrom(to_any_query(within.query))
        request.before, request.after = within.before, within.after
    elif within is not None:
        request.section_range.CopyFrom(to_range(within))


def from_within(request: Any) -> CodePart | None:
    """The part that a request names. Raises ``InvalidInput``."""
    kind = request.WhichOneof("within")
    if (request.before or request.after) and kind != "around":
        raise wrong_field("before" if request.before else "after", "before and after count from a place", "set around")
    if kind is None:
        return None
    if kind == "function":
        name: str = request.function
        return name
    if kind == "section_range":
        return from_range(request.section_range)
    for name, count in (("before", request.before), ("after", request.after)):
        if count > MOST_AROUND:
            raise wrong_field(name, f"{count} are asked for", f"ask for at most {MOST_AROUND}")
    return Around(from_any_query(request.around, "around"), request.before, request.after)
