"""SymbolService.SymbolizeStream: batch in, answer out; a batch that cannot be served does not end the stream."""

from __future__ import annotations

from symd.errors import SymdError
from symd.rpc.wire.failures import to_status
from symd.server.batches import answer
from symd.server.call import Call
from symd.server.service_context import ServiceContext
from symd.v1.symbol_service_pb2 import SymbolizeStreamRequest, SymbolizeStreamResponse


def handle(service: ServiceContext, request: SymbolizeStreamRequest, call: Call) -> SymbolizeStreamResponse:
    response = SymbolizeStreamResponse(id=request.id)
    try:
        response.answers.SetInParent()
        answer(service, request.batch, response.answers, call)
    except SymdError as error:
        return failed(request, error)
    return response


def failed(request: SymbolizeStreamRequest, error: SymdError) -> SymbolizeStreamResponse:
    response = SymbolizeStreamResponse(id=request.id)
    response.failure.CopyFrom(to_status(error))
    return response
