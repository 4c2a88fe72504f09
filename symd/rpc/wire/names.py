"""What is looked for by name, and what was found."""

from __future__ import annotations

from symd.model.identities import ObjectPath
from symd.model.names import Match, NamedItem, NameKind, NameQuery
from symd.rpc.wire.fields import bad_field, digest_and_path, module_name, utf8
from symd.rpc.wire.modules import from_facts, to_facts
from symd.v1 import name_service_pb2 as pb


def to_request(digest: str, wanted: NameQuery, path: str | None) -> pb.FindNamesRequest:
    return pb.FindNamesRequest(
        module=module_name(digest),
        pattern=utf8(wanted.pattern),
        match=int(wanted.match),  # type: ignore[arg-type] # the enum's numbers are Match's own
        kinds=sorted(map(int, wanted.kinds)),  # type: ignore[arg-type] # and these are NameKind's
        code_object=utf8(path),
    )


def from_request(request: pb.FindNamesRequest) -> tuple[str, NameQuery, str | None]:
    """(the module's digest, what to look for, the code object's path or None). Raises ``BadQuery``."""
    try:
        match = Match(request.match or Match.EXACT)
    except ValueError as error:
        raise bad_field("match", str(error), "see NameMatch") from None
    try:
        kinds = frozenset(map(NameKind, request.kinds))
    except ValueError as error:
        raise bad_field("kinds", str(error), "see NameKind") from None
    digest, path = digest_and_path(request)
    return digest, NameQuery(request.pattern, match, kinds), path


def to_item(found: NamedItem) -> pb.NamedItem:
    return pb.NamedItem(
        kind=int(found.kind),  # type: ignore[arg-type] # the enum's numbers are NameKind's own
        name=utf8(found.name),
        linkage_name=utf8(found.linkage_name),
        code_object=utf8(found.path),
        section=utf8(found.section),
        section_index=found.section_index,
        section_offset=found.section_offset,
        address=found.address,
        size_bytes=found.size,
        inlined_copies=found.inlined_copies,
        facts=to_facts(found.facts),
        declared_file=utf8(found.declared_file),
        declared_line=found.declared_line,
    )


def from_item(message: pb.NamedItem) -> NamedItem:
    known = {field.name: value for field, value in message.ListFields()}
    return NamedItem(
        NameKind(message.kind),
        message.name,
        ObjectPath(message.code_object),
        known.get("linkage_name"),
        known.get("section"),
        known.get("section_index"),
        known.get("section_offset"),
        known.get("address"),
        message.size_bytes,
        message.inlined_copies,
        from_facts(message.facts),
        known.get("declared_file"),
        message.declared_line,
    )
