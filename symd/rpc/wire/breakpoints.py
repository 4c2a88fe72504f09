"""Source lines, the locations and refusals that answer them, and the events of watches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from sys import getsizeof

from symd.errors import LimitExceeded, Malformed
from symd.model.addresses import DeviceAddress, ObjectAddress, SectionOffset
from symd.model.breakpoints import (
    Breakpoint,
    BreakpointLocation,
    Event,
    Located,
    Refusal,
    Resolved,
    SourceLine,
    Watching,
)
from symd.model.identities import ObjectPath
from symd.model.sources import PathRule
from symd.rpc.wire.contexts import from_load_in_context, to_load_in_context
from symd.rpc.wire.fields import bad_field, cuts, module_digest, module_name, optional_path, utf8, utf8s
from symd.v1 import breakpoint_service_pb2 as pb

LOCATIONS = 1000
"""Locations in one event."""

LOCATIONS_TEXT = 1 << 20
"""Characters of texts in these, give or take one location: whoever made the module says how long they are."""

MAX_PATH_RULES = 100
"""Path rules of one breakpoint: every file of a module is held against each."""

MAX_TEXT = 4096
"""Characters of a breakpoint's id, file and code object, and of a rule's folders: the longest path that Linux takes (PATH_MAX)."""

BREAKPOINT_BYTES, RULE_BYTES = 256, 64
"""About what a breakpoint and a rule take beside their texts."""


def to_breakpoint(breakpoint_: Breakpoint) -> pb.Breakpoint:
    """A breakpoint as a message, without its id. Raises ``BadQuery`` for an invalid line."""
    return pb.Breakpoint(
        where=pb.SourceLine(file=utf8(breakpoint_.where.file), line=_line(breakpoint_.where.line)),
        path=utf8(breakpoint_.path),
        every_address=breakpoint_.every_address,
        path_rules=[
            pb.PathRule(prefix=utf8(rule.prefix), replacement=utf8(rule.replacement)) for rule in breakpoint_.rules
        ],
    )


def from_breakpoint(message: pb.Breakpoint, name: str = "") -> Breakpoint:
    """Raises ``BadQuery`` when file or line is missing, ``LimitExceeded`` for too many rules or too long a text."""
    if len(message.path_rules) > MAX_PATH_RULES:
        raise LimitExceeded(
            f"a breakpoint has {len(message.path_rules)} path rules, at most {MAX_PATH_RULES} are taken",
            hint="one rule is enough for each folder that lies elsewhere",
            metadata={"limit": "path_rules", "value": str(MAX_PATH_RULES)},
        )
    if not message.where.file:
        raise bad_field("breakpoint.where.file", "a breakpoint names no file", "set where.file")
    _check_length("id", name)
    _check_length("where.file", message.where.file)
    _check_length("path", message.path)
    for rule in message.path_rules:
        _check_length("path_rules.prefix", rule.prefix)
        _check_length("path_rules.replacement", rule.replacement)
    return Breakpoint(
        name,
        SourceLine(message.where.file, _line(message.where.line)),
        message.every_address,
        optional_path(message),
        tuple(PathRule(rule.prefix, rule.replacement) for rule in message.path_rules),
    )


def _check_length(field: str, text: str) -> None:
    if len(text) > MAX_TEXT:
        raise LimitExceeded(
            f"{field} of a breakpoint has {len(text)} characters, at most {MAX_TEXT} are taken",
            hint="give a path that a system could open",
            metadata={"limit": "breakpoint_text", "value": str(MAX_TEXT)},
        )


def size_of(breakpoint_: Breakpoint) -> int:
    """About the bytes of memory that a breakpoint takes."""
    texts = [breakpoint_.id, breakpoint_.where.file, breakpoint_.path or ""]
    texts += [text for rule in breakpoint_.rules for text in (rule.prefix, rule.replacement)]
    return sum(map(getsizeof, texts)) + BREAKPOINT_BYTES + RULE_BYTES * len(breakpoint_.rules)


def from_resolve_request(request: pb.ResolveBreakpointRequest) -> tuple[str, Breakpoint]:
    """(the module's digest, what to look for). Raises ``BadQuery``."""
    return module_digest(request.name), from_breakpoint(request.breakpoint)


def from_watch_request(request: pb.WatchBreakpointsRequest) -> tuple[list[Breakpoint], bool, str]:
    """(the breakpoints, whether modules that are there already are passed over, the position after which to go on). Raises ``BadQuery``."""
    breakpoints = [from_breakpoint(each.breakpoint, each.id) for each in request.breakpoints]
    return breakpoints, request.only_new, request.resume_after


def _line(number: int) -> int:
    if not 0 < number < 1 << 32:
        raise bad_field("breakpoint.where.line", f"{number} is no line", "lines count from 1")
    return number


def to_location(location: BreakpointLocation) -> pb.BreakpointLocation:
    return pb.BreakpointLocation(
        path=utf8(location.path),
        kernel=utf8(location.kernel),
        function=utf8(location.function),
        section=utf8(location.section),
        section_index=location.section_index,
        section_offset=location.section_offset,
        address=location.address,
        file=utf8(location.file),
        line=location.line,
        column=location.column,
        inlined=location.inlined,
        slid=location.slid,
        device_addresses=location.device_addresses,
    )


def from_location(message: pb.BreakpointLocation) -> BreakpointLocation:
    return BreakpointLocation(
        ObjectPath(message.path),
        message.kernel if message.HasField("kernel") else None,
        message.function if message.HasField("function") else None,
        message.section if message.HasField("section") else None,
        message.section_index,
        SectionOffset(message.section_offset),
        ObjectAddress(message.address),
        message.file,
        message.line,
        message.column,
        message.inlined,
        message.slid,
        tuple(map(DeviceAddress, message.device_addresses)),
    )


def to_refusal(answer: Located) -> pb.BreakpointRefusal | None:
    if answer.refusal is None:
        return None
    return pb.BreakpointRefusal(
        refusal=int(answer.refusal),  # type: ignore[arg-type] # the enum's numbers are Refusal's own
        candidates=utf8s(answer.candidates),
        last_line=answer.last_line or 0,
    )


def from_answer(
    requested: SourceLine, locations: Iterable[pb.BreakpointLocation], refusal: pb.BreakpointRefusal | None
) -> Located:
    """An answer; ``refusal`` None, or one that says nothing, stands for locations. Raises ``Malformed``."""
    found = tuple(map(from_location, locations))
    if refusal is None or not refusal.refusal:
        return Located(requested, found)
    try:
        reason = Refusal(refusal.refusal)
    except ValueError:
        raise Malformed(f"the daemon refuses with {refusal.refusal}, which is unknown here") from None
    return Located(requested, found, reason, tuple(refusal.candidates), refusal.last_line or None)


def to_events(event: Event) -> Iterator[pb.WatchBreakpointsResponse]:
    """One message, or several for an event of many locations."""
    if isinstance(event, Watching):
        yield pb.WatchBreakpointsResponse(watching=pb.Watching(), position=event.position)
        return
    locations = event.answer.locations
    parts = list(cuts(map(_characters, locations), LOCATIONS, LOCATIONS_TEXT))
    for start, end in parts or [(0, 0)]:
        part = pb.BreakpointEvent(
            id=event.id,
            module=module_name(event.digest),
            locations=map(to_location, locations[start:end]),
            refusal=to_refusal(event.answer),
            more=end < len(locations),
            loaded=to_load_in_context(event.loaded) if event.loaded else None,
        )
        yield pb.WatchBreakpointsResponse(answer=part, position="" if part.more else event.position)


def _characters(location: BreakpointLocation) -> int:
    texts = location.path, location.kernel, location.function, location.section, location.file
    return sum(len(text or "") for text in texts)


def from_events(messages: Iterable[pb.WatchBreakpointsResponse], lines: dict[str, SourceLine]) -> Iterator[Event]:
    """The events of a watch on ``lines`` by id, each whole. Raises ``Malformed``."""
    gathered: tuple[BreakpointLocation, ...] = ()
    for message in messages:
        if message.WhichOneof("event") != "answer":
            yield Watching(message.position)
            continue
        part = message.answer
        if part.id not in lines:
            raise Malformed(f"the daemon answers {part.id[:100]!r}, which was not asked")
        answer = from_answer(lines[part.id], part.locations, part.refusal if part.HasField("refusal") else None)
        gathered += answer.locations
        if not part.more:
            loaded = from_load_in_context(part.loaded) if part.HasField("loaded") else None
            whole = replace(answer, locations=gathered)
            yield Resolved(part.id, module_digest(part.module), whole, loaded, message.position)
            gathered = ()
