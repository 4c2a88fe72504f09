"""What is looked for by name, and what was found."""

from __future__ import annotations

from symd.errors import BadQuery
from symd.model.names import Match, NamedItem, NameKind, NameQuery
from symd.v1 import name_service_pb2 as pb
from symd.wire.facts import from_facts, to_facts
from symd.wire.text import utf8


def to_wanted(wanted: NameQuery, name: str, path: str | None) -> pb.FindNamesRequest:
    return pb.FindNamesRequest(
        name=name,
        pattern=utf8(wanted.pattern),
        match=int(wanted.match),  # type: ignore[arg-type] # the enum's numbers are Match's own
        kinds=sorted(map(int, wanted.kinds)),  # type: ignore[arg-type] # and these are NameKind's
        object=utf8(path),
    )


def from_wanted(message: pb.FindNamesRequest) -> NameQuery:
    """Raises ``BadQuery`` for a way to match or a kind that there is not."""
    try:
        return NameQuery(message.pattern, Match(message.match or Match.EXACT), frozenset(map(NameKind, message.kinds)))
    except ValueError as error:
        raise BadQuery(str(error), hint="see NameMatch and NameKind") from None


def to_entry(found: NamedItem) -> pb.NameEntry:
    return pb.NameEntry(
        kind=int(found.kind),  # type: ignore[arg-type] # the enum's numbers are NameKind's own
        name=utf8(found.name),
        linkage_name=utf8(found.linkage_name),
        object=utf8(found.path),
        section=utf8(found.section),
        section_index=found.section_index,
        section_offset=found.section_offset,
        address=found.address,
        size=found.size,
        inlined_copies=found.copies,
        facts=to_facts(found.facts),
    )


def from_entry(message: pb.NameEntry) -> NamedItem:
    known = {field.name: value for field, value in message.ListFields()}
    return NamedItem(
        NameKind(message.kind),
        message.name,
        message.object,
        known.get("linkage_name"),
        known.get("section"),
        known.get("section_index"),
        known.get("section_offset"),
        known.get("address"),
        message.size,
        message.inlined_copies,
        from_facts(message.facts),
    )
