"""SymbolService.Symbolize: one address or a batch."""

from __future__ import annotations

import grpc

from symd.service.batches import answer
from symd.service.guard import check_deadline
from symd.service.service_context import ServiceContext
from symd.v1.symbol_service_pb2 import SymbolizeRequest, SymbolizeResponse


def handle(service: ServiceContext, request: SymbolizeRequest, call: grpc.ServicerContext) -> SymbolizeResponse:
    check_deadline(call)
    response = SymbolizeResponse()
    answer(service, request, response, set())
    return response
