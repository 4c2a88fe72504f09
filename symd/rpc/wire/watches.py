"""What a client says in a watch, and what is told there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from symd.errors import LimitExceeded, Malformed
from symd.model.breakpoints import Breakpoint, BreakpointLocation, Located, LocationSpec
from symd.model.contexts import LoadInContext
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
from symd.rpc.wire.breakpoints import from_answer, from_breakpoint, to_breakpoint, to_location, to_refusal
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
    utf8,
    utf8s,
)
from symd.rpc.wire.modules import from_record, to_module
from symd.v1 import breakpoint_service_pb2 as pb
from symd.v1 import module_pb2

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
