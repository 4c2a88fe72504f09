"""Places for breakpoints, the locations and refusals that answer them; what a client says in a watch, and what is told
there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from sys import getsizeof

from symd.errors import LimitExceeded, Malformed
from symd.model.addresses import ByDevice
from symd.model.breakpoints import (
    Breakpoint,
    BreakpointLocation,
    FunctionName,
    KernelName,
    Located,
    LocationSpec,
    Refusal,
    SourceLine,
)
from symd.model.contexts import LoadInContext
from symd.model.sources import PathRule
from symd.model.texts import utf8_size
from symd.model.watches import (
    BreakpointChange,
    ChangeAcknowledged,
    LoadBegan,
    LoadEnded,
    ModuleAdded,
    ModuleEvent,
    ModuleRemoved,
    PlacesGone,
    Resolved,
    WatchEvent,
    Watching,
)
from symd.rpc.wire.contexts import from_load_in_context, to_load_in_context
from symd.rpc.wire.failures import from_status, to_status
from symd.rpc.wire.fields import (
    bad_field,
    context_id,
    context_name,
    cuts,
    from_each,
    module_digest,
    module_name,
    optional_context_id,
    optional_context_name,
    optional_digest,
    optional_module_name,
    optional_path,
    record,
    utf8,
    utf8s,
)
from symd.rpc.wire.modules import from_record, to_module
from symd.rpc.wire.queries import from_any_query, to_any_query
from symd.v1 import breakpoint_service_pb2 as pb
from symd.v1 import module_pb2

MAX_PATH_RULES = 100
"""Path rules of one breakpoint: every file of a module is held against each."""

MAX_TARGETS = 100
"""Targets of one breakpoint."""

MAX_BREAKPOINT_TEXT = 4096
"""Characters of a breakpoint's id, place, code object and targets, and of a rule's folders: the longest path that Linux
takes (PATH_MAX)."""

BREAKPOINT_BYTES, RULE_BYTES = 256, 64
"""About what a breakpoint and a rule take beside their texts."""


def to_resolve_request(digest: str, breakpoint_: Breakpoint, context: str) -> pb.ResolveBreakpointRequest:
    """The request for a breakpoint's places. Raises ``BadQuery``."""
    return pb.ResolveBreakpointRequest(
        module=optional_module_name(digest),
        breakpoint=to_breakpoint(breakpoint_),
        context=optional_context_name(context),
    )


def to_breakpoint(breakpoint_: Breakpoint) -> pb.Breakpoint:
    """A breakpoint as a message, without its id and its contexts. Raises ``BadQuery`` for an invalid line."""
    message = pb.Breakpoint(
        code_object=utf8(breakpoint_.path),
        targets=utf8s(breakpoint_.targets),
        every_address=breakpoint_.every_address,
        path_rules=map(_to_rule, breakpoint_.rules),
    )
    match breakpoint_.where:
        case SourceLine(file, line, column):
            where = pb.SourceLine(file=utf8(file), line=_line(line), column=_column(column))
            message.line.CopyFrom(where)
        case FunctionName(name):
            message.function = utf8(name)
        case KernelName(name):
            message.kernel = utf8(name)
        case query:
            message.address.CopyFrom(to_any_query(query))
    return message


def from_breakpoint(message: pb.Breakpoint, name: str = "", contexts: Iterable[str] = ()) -> Breakpoint:
    """Raises ``BadQuery`` when the place is missing, ``LimitExceeded`` for too many rules, targets or contexts, or too
    long a text."""
    _check_count(
        "path_rules", message.path_rules, MAX_PATH_RULES, "one rule is enough for each folder that lies elsewhere"
    )
    _check_count("targets", message.targets, MAX_TARGETS, "leave them out to mean all")
    _check_length("id", name)
    _check_length("code_object", message.code_object)
    for target in message.targets:
        _check_length("targets", target)
    for rule in message.path_rules:
        _check_length("path_rules.prefix", rule.prefix)
        _check_length("path_rules.replacement", rule.replacement)
    return Breakpoint(
        name,
        _place(message),
        message.every_address,
        optional_path(message),
        tuple(map(_from_rule, message.path_rules)),
        tuple(message.targets),
        tuple(contexts),
    )


def _place(message: pb.Breakpoint) -> LocationSpec:
    which = message.WhichOneof("where")
    if which == "address":
        return from_any_query(message.address, "breakpoint.address")
    text = message.line.file if which == "line" else getattr(message, which or "function")
    if not text:
        field = "breakpoint.line.file" if which == "line" else f"breakpoint.{which or 'where'}"
        raise bad_field(
            field, "a breakpoint names no place", "set line.file and line.line, function, kernel or address"
        )
    _check_length(f"{which}", text)
    if which == "line":
        return SourceLine(text, _line(message.line.line), message.line.column)
    return FunctionName(text) if which == "function" else KernelName(text)


def _check_count(field: str, values: Sequence[object], most: int, hint: str) -> None:
    if len(values) > most:
        raise LimitExceeded(
            f"a breakpoint has {len(values)} {field.replace('_', ' ')}, at most {most} are taken",
            hint=hint,
            metadata={"limit": field, "value": str(most)},
        )


def _check_length(field: str, text: str) -> None:
    if len(text) > MAX_BREAKPOINT_TEXT:
        raise LimitExceeded(
            f"{field} of a breakpoint has {len(text)} characters, at most {MAX_BREAKPOINT_TEXT} are taken",
            hint="give a path that a system could open, or a name that a compiler writes",
            metadata={"limit": "breakpoint_text", "value": str(MAX_BREAKPOINT_TEXT)},
        )


def size_of(breakpoint_: Breakpoint) -> int:
    """About the bytes of memory that a breakpoint takes."""
    texts = [
        breakpoint_.id,
        str(breakpoint_.where),
        breakpoint_.path or "",
        *breakpoint_.targets,
        *breakpoint_.contexts,
    ]
    texts += [text for rule in breakpoint_.rules for text in (rule.prefix, rule.replacement)]
    return sum(map(getsizeof, texts)) + BREAKPOINT_BYTES + RULE_BYTES * len(breakpoint_.rules)


def from_resolve_request(request: pb.ResolveBreakpointRequest) -> tuple[str, Breakpoint, str]:
    """(the module's digest or "", what to look for, the context's id or ""). Raises ``BadQuery``."""
    asked = from_breakpoint(request.breakpoint)
    in_memory = isinstance(asked.where, ByDevice)
    digest = optional_digest(request.module) if in_memory else module_digest(request.module)
    return digest, asked, optional_context_id(request.context)


def _line(number: int) -> int:
    if not 0 < number < 1 << 32:
        raise bad_field("breakpoint.line.line", f"{number} is not a line", "lines count from 1")
    return number


def _column(number: int) -> int:
    if not 0 <= number < 1 << 32:
        raise bad_field(
            "breakpoint.line.column", f"{number} is not a column", "columns count from 1; 0 is the whole line"
        )
    return number


to_location, from_location = record(BreakpointLocation, pb.BreakpointLocation)
_to_rule, _from_rule = record(PathRule, pb.PathRule)


def to_refusal(answer: Located) -> pb.BreakpointRefusal | None:
    if answer.refusal is None:
        return None
    return pb.BreakpointRefusal(
        refusal=int(answer.refusal),  # type: ignore[arg-type] # the enum's numbers are Refusal's own
        candidates=utf8s(answer.candidates),
        last_line=answer.last_line or 0,
    )


def from_answer(
    requested: LocationSpec,
    locations: Iterable[pb.BreakpointLocation],
    refusal: pb.BreakpointRefusal | None,
    module: str = "",
) -> Located:
    """An answer; ``refusal`` None, or one that says nothing, stands for locations. Raises ``Malformed``."""
    found, holder = tuple(map(from_location, locations)), module_digest(module) if module else None
    if refusal is None or not refusal.refusal:
        return Located(requested, found, module=holder)
    try:
        reason = Refusal(refusal.refusal)
    except ValueError:
        raise Malformed(f"the daemon refuses with {refusal.refusal}, which is unknown here") from None
    return Located(requested, found, reason, tuple(refusal.candidates), refusal.last_line or None, holder)


LOCATIONS = 1000
"""Locations in one message."""

LOCATIONS_TEXT = 1 << 20
"""Bytes of texts in these, give or take one location: a module may make them of any length."""

MAX_CONTEXTS = 1000
"""Contexts that one watch, or one breakpoint, may be about."""


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """What to watch: contexts by their ids, interfaces, and whether what is there is passed over."""

    breakpoints: Sequence[Breakpoint]
    contexts: Sequence[str]
    apis: Sequence[str]
    only_new: bool
    resume_token: str


def to_start(request: WatchRequest) -> pb.WatchRequest:
    """The first message of a watch. Raises ``BadQuery`` for an invalid line."""
    start = pb.WatchStart(
        contexts=map(context_name, request.contexts),
        apis=utf8s(request.apis),
        only_new=request.only_new,
        resume_token=request.resume_token,
        breakpoints=map(_to_pending, request.breakpoints),
    )
    return pb.WatchRequest(start=start)


def from_start(message: pb.WatchRequest) -> WatchRequest:
    """Raises ``BadQuery`` where this is no first message, and ``LimitExceeded`` for too many contexts."""
    if message.WhichOneof("request") != "start":
        raise bad_field("start", "the first message of a watch says what to watch", "set start")
    start = message.start
    return WatchRequest(
        from_each(start.breakpoints, _from_pending, "start.breakpoints"),
        _contexts(start.contexts, "a watch"),
        list(start.apis),
        start.only_new,
        start.resume_token,
    )


def to_change(change: BreakpointChange) -> pb.WatchRequest:
    """Raises ``BadQuery`` for an invalid line."""
    return pb.WatchRequest(change=pb.BreakpointChange(add=map(_to_pending, change.add), remove=utf8s(change.remove)))


def check_is_change(message: pb.WatchRequest) -> None:
    """Raises ``BadQuery`` where a message that is not the first of a watch is no change."""
    if message.WhichOneof("request") != "change":
        raise bad_field("change", "every message of a watch but the first changes its breakpoints", "set change")


def from_change(message: pb.WatchRequest) -> BreakpointChange:
    """The change; raises as ``from_breakpoint`` does."""
    added = from_each(message.change.add, _from_pending, "change.add")
    return BreakpointChange(tuple(added), tuple(message.change.remove))


def _to_pending(each: Breakpoint) -> pb.PendingBreakpoint:
    return pb.PendingBreakpoint(
        id=utf8(each.id), breakpoint=to_breakpoint(each), contexts=map(context_name, each.contexts)
    )


def _from_pending(message: pb.PendingBreakpoint) -> Breakpoint:
    return from_breakpoint(message.breakpoint, message.id, _contexts(message.contexts, "a breakpoint"))


def _contexts(names: Sequence[str], what: str) -> list[str]:
    if len(names) > MAX_CONTEXTS:
        raise LimitExceeded(
            f"{what} of {len(names)} contexts, at most {MAX_CONTEXTS} are taken",
            hint="leave them out to mean all of them",
            metadata={"limit": "watched_contexts", "value": str(MAX_CONTEXTS)},
        )
    return [context_id(name, "contexts") for name in names]


def to_responses(event: WatchEvent, number: int) -> Iterator[pb.WatchResponse]:
    """One message, or several for an answer of many locations. ``number`` is that of the change that is
    acknowledged."""
    match event:
        case Resolved(name, digest, answer, load):
            for part in _parts(name, digest, answer, load):
                yield pb.WatchResponse(answer=part, resume_token="" if part.more else event.resume_token)
        case PlacesGone(name, digest, answer, load):
            for part in _parts(name, digest, answer, load):
                yield pb.WatchResponse(gone=part, resume_token="" if part.more else event.resume_token)
        case ChangeAcknowledged(failure=failure):
            status = None if failure is None else to_status(failure)
            acknowledged = pb.ChangeAcknowledged(number=number, failure=status)
            yield pb.WatchResponse(acknowledged=acknowledged, resume_token=event.resume_token)
        case _:
            yield _of_module(event)


def _of_module(event: ModuleEvent) -> pb.WatchResponse:
    response = pb.WatchResponse(resume_token=event.resume_token)
    match event:
        case ModuleAdded(digest, record):
            gone = module_pb2.Module(name=module_name(digest), sha256=digest)
            response.added.CopyFrom(to_module(record) if record else gone)
        case ModuleRemoved(digest):
            response.removed = module_name(digest)
        case LoadBegan(loaded):
            response.loaded.CopyFrom(to_load_in_context(loaded))
        case LoadEnded(loaded):
            response.unloaded.CopyFrom(to_load_in_context(loaded))
        case Watching():
            response.watching.SetInParent()
    return response


def _parts(name: str, digest: str, answer: Located, load: LoadInContext | None) -> Iterator[pb.BreakpointEvent]:
    locations = answer.locations
    for start, end in list(cuts(map(_text_size, locations), LOCATIONS, LOCATIONS_TEXT)) or [(0, 0)]:
        yield pb.BreakpointEvent(
            id=name,
            module=module_name(digest),
            locations=map(to_location, locations[start:end]),
            refusal=to_refusal(answer),
            more=end < len(locations),
            load=to_load_in_context(load) if load else None,
        )


def _text_size(location: BreakpointLocation) -> int:
    texts = location.path, location.kernel, location.function, location.section, location.file
    return sum(map(utf8_size, texts))


class EventReader:
    """Events of a watch, each whole, from its messages. ``places`` has those of the breakpoints by their ids, for as
    long as they are answered."""

    def __init__(self, places: Mapping[str, LocationSpec]) -> None:
        self._places = places
        self._gathered: tuple[BreakpointLocation, ...] = ()

    def read(self, message: pb.WatchResponse) -> WatchEvent | None:
        """The event that a message ends; None where the next one goes on with it. The ids of a change that is
        acknowledged are left to whoever knows them. Raises ``Malformed``."""
        match message.WhichOneof("event"):
            case "answer":
                return self._answered(message.answer, message.resume_token)
            case "gone":
                gone = self._answered(message.gone, message.resume_token)
                if gone is None or gone.loaded is None:
                    return None
                return PlacesGone(gone.id, gone.digest, gone.answer, gone.loaded, message.resume_token)
            case "acknowledged":
                status = message.acknowledged.failure if message.acknowledged.HasField("failure") else None
                failure = None if status is None else from_status(status)
                return ChangeAcknowledged(resume_token=message.resume_token, failure=failure)
        return _module_event(message)

    def _answered(self, part: pb.BreakpointEvent, token: str) -> Resolved | None:
        if part.id not in self._places:
            raise Malformed(f"the daemon answers {part.id[:100]!r}, which was not asked")
        answer = from_answer(self._places[part.id], part.locations, part.refusal if part.HasField("refusal") else None)
        self._gathered += answer.locations
        if part.more:
            return None
        loaded = from_load_in_context(part.load) if part.HasField("load") else None
        whole, self._gathered = replace(answer, locations=self._gathered), ()
        return Resolved(part.id, module_digest(part.module), whole, loaded, token)


def _module_event(message: pb.WatchResponse) -> ModuleEvent:
    token = message.resume_token
    match message.WhichOneof("event"):
        case "added":
            record = from_record(message.added) if message.added.HasField("create_time") else None
            event: ModuleEvent = ModuleAdded(module_digest(message.added.name), record, token)
        case "removed":
            event = ModuleRemoved(module_digest(message.removed), token)
        case "loaded":
            event = LoadBegan(from_load_in_context(message.loaded), token)
        case "unloaded":
            event = LoadEnded(from_load_in_context(message.unloaded), token)
        case "watching":
            event = Watching(token)
        case _:
            raise Malformed("the daemon tells of something that is unknown here", hint="use a newer symd")
    return event
