"""Contexts, their loads and events, and aliases, to messages and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from symd.errors import BadQuery
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
    Conversion,
    bad_field,
    context_id,
    context_name,
    from_each,
    from_time,
    module_digest,
    module_name,
    optional_context_id,
    optional_context_name,
    record,
    to_timestamp,
    utf8,
)
from symd.rpc.wire.queries import from_query, to_query
from symd.v1 import alias_service_pb2 as pb
from symd.v1 import context_pb2
from symd.v1.context_service_pb2 import RecordEventsRequest

Message = TypeVar("Message")


_CONTEXT = record(
    Context,
    context_pb2.Context,
    address_bits=Conversion(from_field=lambda bits: bits or 64),
    attributes=Conversion(
        lambda attributes: {utf8(name): utf8(value) for name, value in attributes.items()}, dict, whole=True
    ),
)


from_context = _CONTEXT.from_message


def to_context(context: Context) -> context_pb2.Context:
    """Raises ``BadQuery`` for a number that does not fit."""
    of_kind(context, Context, CONTEXT_HINT)
    message: context_pb2.Context = _fitting(lambda: _CONTEXT.to_message(context))
    return message


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


_SEGMENT = record(
    Segment,
    context_pb2.Segment,
    start=Conversion(to_query, lambda start: from_query(start, "load.segments.start"), required=True),
)
_LOAD = record(
    Load,
    context_pb2.Load,
    module=Conversion(module_name, lambda name: module_digest(name, "load.module")),
    segments=_SEGMENT,
)
from_load: Callable[[context_pb2.Load], Load] = _LOAD.from_message


def to_load(load: Load) -> context_pb2.Load:
    """Raises ``BadQuery`` for a number that does not fit."""
    message: context_pb2.Load = _fitting(lambda: _LOAD.to_message(load))
    return message


to_load_in_context, from_load_in_context = record(
    LoadInContext,
    context_pb2.LoadInContext,
    context=Conversion(to_context_record, from_context_record, required=True),
    load=Conversion(to_load, from_load, required=True),
)


def from_record_request(request: RecordEventsRequest) -> tuple[str, list[Load | Unload]]:
    """(the context's id, what happened). Raises ``BadQuery``."""
    events = from_each(request.events, from_event, "events")
    return context_id(request.context), events


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
    message: pb.Alias = _ALIAS.to_message(replace(alias, kind=kind, key=key, context=context))
    return message


_ALIAS = record(
    Alias,
    pb.Alias,
    module=Conversion(module_name, module_digest),
    context=Conversion(optional_context_name, optional_context_id),
)
from_alias = _ALIAS.from_message


def from_create_request(request: pb.CreateAliasesRequest) -> list[Alias]:
    """Raises ``BadQuery``."""
    return from_each(request.aliases, from_alias, "aliases")


def to_key(kind_of_request: type[Request], key: AliasKey) -> Request:
    """The request of that type about the alias."""
    return kind_of_request(kind=key.kind, key=key.key, context=optional_context_name(key.context))


def from_key(request: pb.GetAliasRequest | pb.DeleteAliasRequest) -> tuple[str, str, str]:
    """(kind, key, the context's id or ""). Raises ``BadQuery``."""
    return request.kind, request.key, optional_context_id(request.context)


def alias_key(alias: Alias) -> tuple[str, str, str]:
    """What aliases are listed by."""
    of_kind(alias, Alias, ALIAS_HINT)
    return alias.context, alias.kind, alias.key
