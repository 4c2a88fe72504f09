"""SymbolService.Symbolize: one address or a batch."""

from __future__ import annotations

import grpc

from symd.service.batches import answer
from symd.service.guard import check_deadline
from symd.service.parts import Parts
from symd.v1.symbol_service_pb2 import SymbolizeRequest, SymbolizeResponse


def handle(parts: Parts, request: SymbolizeRequest, context: grpc.ServicerContext) -> SymbolizeResponse:
    check_deadline(context)
    response = SymbolizeResponse()
    answer(parts, request, response, set())
    return response
