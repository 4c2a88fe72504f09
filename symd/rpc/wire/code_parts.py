"""Which code a request for a listing or a line table is about: a function by name, what is around a place, or a range
of a section."""

from __future__ import annotations

from typing import Any

from symd.errors import BadQuery
from symd.model.addresses import SectionOffset
from symd.model.line_tables import MOST_AROUND, Around, CodePart, SectionRange
from symd.rpc.wire.fields import bad_field, wrong_field
from symd.rpc.wire.queries import from_query, to_query
from symd.v1 import line_table_pb2


def write_within(request: Any, within: CodePart | None) -> None:
    """The part into a request that has none. Raises ``BadQuery`` for what does not fit its fields."""
    if isinstance(within, str):
        try:
            request.function = within
        except ValueError:  # also of Unicode
            raise BadQuery("this name is not UTF-8", where=within, hint="pass text that UTF-8 can say") from None
    elif isinstance(within, Around):
        request.around.CopyFrom(to_query(within.query))
        request.before, request.after = within.before, within.after
    elif within is not None:
        request.section_range.CopyFrom(_to_range(within))


def _to_range(within: SectionRange) -> line_table_pb2.SectionRange:
    try:
        message = line_table_pb2.SectionRange(start=within.start, end=within.end)
        if isinstance(within.section, str):
            message.section_name = within.section
        else:
            message.section_index = int(within.section)
    except ValueError:
        raise BadQuery(f"{within} does not fit", hint="offsets have 64 bits, section numbers 32") from None
    return message


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
        return _from_range(request.section_range)
    for name, count in (("before", request.before), ("after", request.after)):
        if count > MOST_AROUND:
            raise wrong_field(name, f"{count} are asked for", f"ask for at most {MOST_AROUND}")
    return Around(from_query(request.around, "around"), request.before, request.after)


def _from_range(message: line_table_pb2.SectionRange) -> SectionRange:
    kind = message.WhichOneof("section")
    if kind is None:
        raise bad_field("section_range", "the range names no section", "set section_name or section_index")
    if message.start >= message.end:
        raise bad_field("section_range.end", "the range has no bytes", "its end is more than its start")
    section = message.section_name if kind == "section_name" else message.section_index
    return SectionRange(section, SectionOffset(message.start), SectionOffset(message.end))
