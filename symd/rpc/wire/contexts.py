"""Contexts and what happened in them.

Other names of modules and code objects.

Device addresses asked, and answers to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from symd.errors import BadQuery
from symd.model.addresses import DeviceAddress
from symd.model.arguments import AddressQuestion, AliasKey, checked_alias_key
from symd.model.contexts import (
    ALIAS_HINT,
    CONTEXT_HINT,
    EVENT_HINT,
    AddressForm,
    Alias,
    Context,
    ContextRecord,
    DeviceAnswers,
    DeviceCandidate,
    Load,
    LoadInContext,
    Segment,
    Unload,
)
from symd.model.kinds import of_kind
from symd.rpc.wire.answers import from_columns, to_columns
from symd.rpc.wire.columns import check_below, concatenated, pack, unpack
from symd.rpc.wire.fields import (
    bad_field,
    context_id,
    context_name,
    from_time,
    module_digest,
    module_name,
    optional_context_id,
    optional_path,
    to_timestamp,
    utf8,
)
from symd.rpc.wire.queries import check_count, from_numbers, from_query, to_query
from symd.v1 import alias_service_pb2 as pb
from symd.v1 import context_pb2
from symd.v1.context_service_pb2 import RecordEventsRequest, SymbolizeAddressesRequest

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
    return ContextRecord(context_id(message.name), from_context(message), create_time)


def to_event(event: Load | Unload) -> context_pb2.MapEvent:
    """Raises ``BadQuery`` for a number that does not fit."""
    of_kind(event, (Load, Unload), EVENT_HINT)
    if isinstance(event, Load):
        return context_pb2.MapEvent(load=to_load(event))
    return _fitting(lambda: context_pb2.MapEvent(unload=context_pb2.Unload(key=utf8(event.key), time=event.time)))


def from_event(message: context_pb2.MapEvent) -> Load | Unload:
    """Raises ``BadQuery`` for an event without a kind."""
    match message.WhichOneof("kind"):
        case "load":
            return from_load(message.load)
        case "unload":
            return Unload(message.unload.key, message.unload.time)
    raise bad_field("events", "an event says nothing", "set load or unload")


def to_load(load: Load) -> context_pb2.Load:
    return _fitting(
        lambda: context_pb2.Load(
            module=module_name(load.module),
            time=load.time,
            key=utf8(load.key),
            unload_time=load.unload_time,
            segments=map(_to_segment, load.segments),
            load_base=load.load_base,
            path=utf8(load.path),
        )
    )


def from_load(message: context_pb2.Load) -> Load:
    return Load(
        module_digest(message.module, "events.load.module"),
        message.time,
        tuple(map(_from_segment, message.segments)),
        message.load_base if message.HasField("load_base") else None,
        optional_path(message),
        message.key,
        message.unload_time if message.HasField("unload_time") else None,
    )


def to_load_in_context(loaded: LoadInContext) -> context_pb2.LoadInContext:
    return context_pb2.LoadInContext(
        context=to_context_record(loaded.context), number=loaded.number, load=to_load(loaded.load)
    )


def from_load_in_context(message: context_pb2.LoadInContext) -> LoadInContext:
    return LoadInContext(from_context_record(message.context), message.number, from_load(message.load))


def from_record_request(request: RecordEventsRequest) -> tuple[str, list[Load | Unload]]:
    """(the context's id, what happened). Raises ``BadQuery``."""
    return context_id(request.name), [from_event(message) for message in request.events]


def _to_segment(segment: Segment) -> context_pb2.Segment:
    return context_pb2.Segment(
        address=segment.address, size_bytes=segment.size, start=to_query(segment.start), path=utf8(segment.path)
    )


def _from_segment(message: context_pb2.Segment) -> Segment:
    start = from_query(message.start, "events.load.segments.start")
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
        path=utf8(alias.path),
        context=optional_context_name(context),
    )


def from_alias(message: pb.Alias) -> Alias:
    """Raises ``BadQuery``."""
    return Alias(
        message.kind,
        message.key,
        module_digest(message.module, "aliases.module"),
        optional_path(message),
        optional_context_id(message.context, "aliases.context"),
    )


def from_create_request(request: pb.CreateAliasesRequest) -> list[Alias]:
    """Raises ``BadQuery``."""
    return [from_alias(alias) for alias in request.aliases]


def to_key(kind_of_request: type[Request], key: AliasKey) -> Request:
    """The request of that type about the alias."""
    return kind_of_request(kind=key.kind, key=key.key, context=optional_context_name(key.context))


def from_key(request: pb.GetAliasRequest | pb.DeleteAliasRequest) -> tuple[str, str, str]:
    """(kind, key, the context's id or ""). Raises ``BadQuery``."""
    return request.kind, request.key, optional_context_id(request.context)


def optional_context_name(context: str) -> str:
    """The name of the context with that id; "" for none."""
    return context_name(context) if context else ""


I64 = NDArray[np.int64]


def to_request(question: AddressQuestion) -> SymbolizeAddressesRequest:
    """Raises ``BadQuery`` for an invalid time or form."""
    context, values, times, form = question
    known = 0 if form.known_bits == 64 else form.known_bits
    try:
        request = SymbolizeAddressesRequest(
            name=context_name(context), count=len(values), shift=form.shift, known_bits=known
        )
        if isinstance(times, int):
            request.time = times
    except ValueError:
        raise BadQuery(
            "a time, a shift or a number of bits does not fit", hint="times are nanoseconds from 0 on"
        ) from None
    request.addresses = values.astype("<u8", copy=False).tobytes()
    if isinstance(times, np.ndarray):
        request.times = times.astype("<u8").tobytes()
    return request


def from_request(request: SymbolizeAddressesRequest, most: int) -> AddressQuestion:
    """Raises ``LimitExceeded`` for more than ``most`` addresses before it looks at them, ``BadQuery`` for invalid
    columns and times."""
    context = context_id(request.name)
    check_count(request.count, most)
    form = AddressForm(request.shift, request.known_bits or 64)
    return AddressQuestion(context, from_numbers(request.addresses, request.count, "addresses"), _times(request), form)


def to_device_columns(answers: DeviceAnswers) -> context_pb2.DeviceAnswerColumns:
    return context_pb2.DeviceAnswerColumns(
        answers=to_columns(answers.answers),
        modules=["", *map(module_name, answers.modules)],
        module=pack(answers.module),
        address=pack(answers.address),
        candidates=(
            context_pb2.DeviceCandidates(position=position, candidates=map(_to_candidate, candidates))
            for position, candidates in answers.candidates.items()
        ),
    )


def from_device_columns(message: context_pb2.DeviceAnswerColumns) -> DeviceAnswers:
    """Raises ``Malformed`` when columns and counts disagree, or a number stands for nothing."""
    count = message.answers.count
    module = unpack(message.module, count, np.uint32)
    check_below(module, max(len(message.modules), 1), "module")
    return DeviceAnswers(
        from_columns(message.answers),
        module,
        unpack(message.address, count, np.uint64),
        [module_digest(name) for name in message.modules[1:]],
        {each.position: tuple(map(_from_candidate, each.candidates)) for each in message.candidates},
    )


def concatenated_device(pieces: Sequence[DeviceAnswers]) -> DeviceAnswers:
    """Answers to the pieces of a batch as answers to the whole."""
    modules = list(dict.fromkeys(digest for piece in pieces for digest in piece.modules))
    number = {digest: at for at, digest in enumerate(modules, 1)}
    tables = [np.array([0, *(number[digest] for digest in piece.modules)], np.uint32) for piece in pieces]
    starts = np.cumsum([0, *(len(piece) for piece in pieces)]).tolist()
    return DeviceAnswers(
        concatenated([piece.answers for piece in pieces]),
        np.concatenate([table[piece.module] for table, piece in zip(tables, pieces, strict=True)]),
        np.concatenate([piece.address for piece in pieces]),
        modules,
        {
            start + query: candidates
            for start, piece in zip(starts, pieces, strict=False)
            for query, candidates in piece.candidates.items()
        },
    )


def _times(request: SymbolizeAddressesRequest) -> I64 | int | None:
    match request.WhichOneof("as_of"):
        case None:
            return None
        case "time":
            return request.time
    return from_numbers(request.times, request.count, "times").view(np.int64)


def _to_candidate(candidate: DeviceCandidate) -> context_pb2.DeviceCandidate:
    return context_pb2.DeviceCandidate(
        address=candidate.address,
        module=module_name(candidate.module),
        path=utf8(candidate.path),
        query=to_query(candidate.query),
    )


def _from_candidate(message: context_pb2.DeviceCandidate) -> DeviceCandidate:
    return DeviceCandidate(
        DeviceAddress(message.address),
        module_digest(message.module),
        optional_path(message),
        from_query(message.query),
    )
