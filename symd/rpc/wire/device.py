"""Device addresses asked, and answers to them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from symd.errors import BadQuery
from symd.model.addresses import DeviceAddress
from symd.model.contexts import AddressForm
from symd.model.device import DeviceAnswers, DeviceCandidate
from symd.model.device_arguments import AddressQuestion
from symd.rpc.wire.answers import from_columns, to_columns
from symd.rpc.wire.batches import check_count
from symd.rpc.wire.columns import check_below, pack, unpack
from symd.rpc.wire.concatenated import concatenated
from symd.rpc.wire.queries import from_numbers, from_query, to_query
from symd.rpc.wire.resource_names import context_id, context_name, module_digest, module_name, optional_path
from symd.rpc.wire.text import utf8
from symd.v1 import context_pb2
from symd.v1.context_service_pb2 import SymbolizeAddressesRequest

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
