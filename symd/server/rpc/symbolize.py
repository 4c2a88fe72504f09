"""SymbolService.Symbolize: one address or a batch."""

from __future__ import annotations

from symd.server.batches import answer, answer_at_once, answer_unopened
from symd.server.call import Call
from symd.server.service_context import ServiceContext
from symd.v1.symbol_service_pb2 import SymbolizeRequest, SymbolizeResponse

at_once = answer_at_once
unopened = answer_unopened


def handle(service: ServiceContext, request: SymbolizeRequest, call: Call) -> SymbolizeResponse:
    response = SymbolizeResponse()
    answer(service, request, response, call)
    return response
