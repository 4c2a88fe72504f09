"""SymbolService.SymbolizeStream: batch in, answer out; a batch that cannot be served does not end the stream."""

from __future__ import annotations

from collections.abc import Iterator

from symd.errors import SymdError
from symd.service.batches import answer
from symd.service.call import Call
from symd.service.service_context import ServiceContext
from symd.v1.symbol_service_pb2 import SymbolizeStreamRequest, SymbolizeStreamResponse
from symd.wire.failures import to_status


def handle(
    service: ServiceContext, requests: Iterator[SymbolizeStreamRequest], call: Call
) -> Iterator[SymbolizeStreamResponse]:
    sent: set[bytes] = set()
    for request in requests:
        yield _outcome(service, request, call, sent)
        service.check_running()
        if not call.is_active():
            return


def _outcome(
    service: ServiceContext, request: SymbolizeStreamRequest, call: Call, sent: set[bytes]
) -> SymbolizeStreamResponse:
    response = SymbolizeStreamResponse(id=request.id)
    try:
        response.answers.SetInParent()
        answer(service, request.batch, response.answers, call, sent)
    except SymdError as error:
        response.failure.CopyFrom(to_status(error))
    return response
