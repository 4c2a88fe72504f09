"""What happens to modules, as messages of a watch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from symd.errors import LimitExceeded, Malformed
from symd.model.module_events import CaughtUp, LoadBegan, LoadEnded, ModuleAdded, ModuleEvent, ModuleRemoved
from symd.rpc.wire.contexts import from_load_in_context, to_load_in_context
from symd.rpc.wire.modules import from_record, to_module
from symd.rpc.wire.resource_names import context_id, module_digest, module_name
from symd.v1 import module_pb2
from symd.v1 import module_service_pb2 as pb

MAX_CONTEXTS = 1000
"""Contexts that one watch may be about."""


def from_watch_request(request: pb.WatchModulesRequest) -> tuple[str, bool, list[str], list[str]]:
    """(the position after which to go on, whether what is there is passed over, ids of contexts, interfaces). Raises
    ``BadQuery``, and ``LimitExceeded`` for too many contexts."""
    if len(request.contexts) > MAX_CONTEXTS:
        raise LimitExceeded(
            f"a watch of {len(request.contexts)} contexts, at most {MAX_CONTEXTS} are taken",
            hint="watch all of them",
            metadata={"limit": "watched_contexts", "value": str(MAX_CONTEXTS)},
        )
    contexts = [context_id(name, "contexts") for name in request.contexts]
    return request.resume_after, request.only_new, contexts, list(request.apis)


def to_response(event: ModuleEvent) -> pb.WatchModulesResponse:
    response = pb.WatchModulesResponse(position=event.position)
    match event:
        case ModuleAdded(_, digest, record):
            gone = module_pb2.Module(name=module_name(digest), sha256=digest)
            response.added.CopyFrom(to_module(record) if record else gone)
        case ModuleRemoved(_, digest):
            response.removed = module_name(digest)
        case LoadBegan(_, loaded):
            response.loaded.CopyFrom(to_load_in_context(loaded))
        case LoadEnded(_, loaded):
            response.unloaded.CopyFrom(to_load_in_context(loaded))
        case CaughtUp():
            response.watching.SetInParent()
    return response


def from_responses(messages: Iterable[pb.WatchModulesResponse]) -> Iterator[ModuleEvent]:
    """The events of a watch. Raises ``Malformed``."""
    for message in messages:
        position = message.position
        match message.WhichOneof("event"):
            case "added":
                record = from_record(message.added) if message.added.HasField("create_time") else None
                yield ModuleAdded(position, module_digest(message.added.name), record)
            case "removed":
                yield ModuleRemoved(position, module_digest(message.removed))
            case "loaded":
                yield LoadBegan(position, from_load_in_context(message.loaded))
            case "unloaded":
                yield LoadEnded(position, from_load_in_context(message.unloaded))
            case "watching":
                yield CaughtUp(position)
            case _:
                raise Malformed("the daemon tells of something that is unknown here", hint="use a newer symd")
