"""SymbolService.SymbolizeStream: batch in, answer out; a batch that cannot be served does not end the stream."""

from __future__ import annotations

from collections.abc import Iterator

import grpc

from symd.errors import SymdError
from symd.service.batches import answer
from symd.service.parts import Parts
from symd.v1.symbol_service_pb2 import SymbolizeStreamRequest, SymbolizeStreamResponse
from symd.wire.failures import to_failure


def handle(
    parts: Parts, requests: Iterator[SymbolizeStreamRequest], context: grpc.ServicerContext
) -> Iterator[SymbolizeStreamResponse]:
    sent: set[bytes] = set()
    with parts.slots.taken():
        for request in requests:
            yield _outcome(parts, request, sent)
            parts.check_running()
            if not context.is_active():
                return


def _outcome(parts: Parts, request: SymbolizeStreamRequest, sent: set[bytes]) -> SymbolizeStreamResponse:
    response = SymbolizeStreamResponse(id=request.id)
    try:
        response.answers.SetInParent()
        answer(parts, request.batch, response.answers, sent)
    except SymdError as error:
        response.failure.CopyFrom(to_failure(error))
    return response
