"""Contexts, their loads and events, and aliases, to messages and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from symd.errors import BadQuery
from symd.model.addresses import DeviceAddress
from symd.model.arguments import AliasKey, checked_alias_key
from symd.model.contexts import (
    ALIAS_HINT,
    CONTEXT_HINT,
    EVENT_HINT,
    Alias,
    Context,
    ContextRecord,
    Load,
    LoadInContext,
    Segment,
    Unload,
)
from symd.model.texts import of_kind
from symd.rpc.wire.fields import (
    bad_field,
    context_id,
    context_name,
    from_each,
    from_time,
    module_digest,
    module_name,
    optional_context_id,
    optional_path,
    to_timestamp,
    utf8,
)
from symd.rpc.wire.queries import from_query, to_query
from symd.v1 import alias_service_pb2 as pb
from symd.v1 import context_pb2
from symd.v1.context_service_pb2 import RecordEventsRequest

Message = TypeVar("Message")


def to_context(context: Context) -> context_pb2.Context:
    """Raises ``BadQuery`` for a number that does not fit."""
    of_kind(context, Context, CONTEXT_HINT)
    return _fitting(
        lambda: context_pb2.Context(
            host=utf8(context.host),
            process=context.process,
            device=utf8(context.device),
            clock=utf8(context.clock),
            address_bits=context.address_bits,
            attributes={utf8(name): utf8(value) for name, value in context.attributes.items()},
        )
    )


def from_context(message: context_pb2.Context) -> Context:
    return Context(
        message.host,
        message.process,
        message.device,
        message.clock,
        message.address_bits or 64,
        dict(message.attributes),
    )


def to_context_record(record: ContextRecord) -> context_pb2.Context:
    message = to_context(record.context)
    message.name = context_name(record.id)
    message.create_time.CopyFrom(to_timestamp(record.create_time))
    return message


def from_context_record(message: context_pb2.Context) -> ContextRecord:
    create_time = from_time(message.create_time)
    return ContextRecord(context_id(message.name, "context.name"), from_context(message), create_time)


def to_event(event: Load | Unload) -> context_pb2.MapEvent:
    """Raises ``BadQuery`` for a number that does not fit."""
    of_kind(event, (Load, Unload), EVENT_HINT)
    if isinstance(event, Load):
        return context_pb2.MapEvent(load=to_load(event))
    return _fitting(lambda: context_pb2.MapEvent(unload=context_pb2.Unload(key=utf8(event.key), time_ns=event.time)))


def from_event(message: context_pb2.MapEvent) -> Load | Unload:
    """Raises ``BadQuery`` for an event without a kind."""
    match message.WhichOneof("kind"):
        case "load":
            return from_load(message.load)
        case "unload":
            return Unload(message.unload.key, message.unload.time_ns)
    raise bad_field("kind", "an event says nothing", "set load or unload")


def to_load(load: Load) -> context_pb2.Load:
    return _fitting(
        lambda: context_pb2.Load(
            module=module_name(load.module),
            time_ns=load.time,
            key=utf8(load.key),
            unload_time_ns=load.unload_time,
            segments=map(_to_segment, load.segments),
            load_base=load.load_base,
            code_object=utf8(load.path),
        )
    )


def from_load(message: context_pb2.Load) -> Load:
    return Load(
        module_digest(message.module, "load.module"),
        message.time_ns,
        tuple(map(_from_segment, message.segments)),
        message.load_base if message.HasField("load_base") else None,
        optional_path(message),
        message.key,
        message.unload_time_ns if message.HasField("unload_time_ns") else None,
    )


def to_load_in_context(loaded: LoadInContext) -> context_pb2.LoadInContext:
    return context_pb2.LoadInContext(
        context=to_context_record(loaded.context), number=loaded.number, load=to_load(loaded.load)
    )


def from_load_in_context(message: context_pb2.LoadInContext) -> LoadInContext:
    return LoadInContext(from_context_record(message.context), message.number, from_load(message.load))


def from_record_request(request: RecordEventsRequest) -> tuple[str, list[Load | Unload]]:
    """(the context's id, what happened). Raises ``BadQuery``."""
    events = from_each(request.events, from_event, "events")
    return context_id(request.context), events


def _to_segment(segment: Segment) -> context_pb2.Segment:
    return context_pb2.Segment(
        address=segment.address, size_bytes=segment.size, start=to_query(segment.start), code_object=utf8(segment.path)
    )


def _from_segment(message: context_pb2.Segment) -> Segment:
    start = from_query(message.start, "load.segments.start")
    return Segment(DeviceAddress(message.address), message.size_bytes, start, optional_path(message))


def _fitting(make: Callable[[], Message]) -> Message:
    """A message, or ``BadQuery`` for a number that its field does not hold."""
    try:
        return make()
    except ValueError as error:
        raise BadQuery(f"a number does not fit: {error}", hint="times, addresses and sizes have 64 bits") from None


Request = TypeVar("Request", pb.GetAliasRequest, pb.DeleteAliasRequest)


def to_alias(alias: Alias) -> pb.Alias:
    """Raises ``BadQuery`` for a kind or a key that is no text."""
    of_kind(alias, Alias, ALIAS_HINT)
    kind, key, context = checked_alias_key(alias.kind, alias.key, alias.context)
    return pb.Alias(
        kind=kind,
        key=key,
        module=module_name(alias.module),
        code_object=utf8(alias.path),
        context=optional_context_name(context),
    )


def from_alias(message: pb.Alias) -> Alias:
    """Raises ``BadQuery``."""
    return Alias(
        message.kind,
        message.key,
        module_digest(message.module, "module"),
        optional_path(message),
        optional_context_id(message.context, "context"),
    )


def from_create_request(request: pb.CreateAliasesRequest) -> list[Alias]:
    """Raises ``BadQuery``."""
    return from_each(request.aliases, from_alias, "aliases")


def to_key(kind_of_request: type[Request], key: AliasKey) -> Request:
    """The request of that type about the alias."""
    return kind_of_request(kind=key.kind, key=key.key, context=optional_context_name(key.context))


def from_key(request: pb.GetAliasRequest | pb.DeleteAliasRequest) -> tuple[str, str, str]:
    """(kind, key, the context's id or ""). Raises ``BadQuery``."""
    return request.kind, request.key, optional_context_id(request.context)


def optional_context_name(context: str) -> str:
    """The name of the context with that id; "" for none."""
    return context_name(context) if context else ""


def alias_key(alias: Alias) -> tuple[str, str, str]:
    """What aliases are listed by."""
    of_kind(alias, Alias, ALIAS_HINT)
    return alias.context, alias.kind, alias.key
