"""SymbolService.Symbolize: one address or a batch."""

from __future__ import annotations

import grpc

from symd.service.batches import answer
from symd.service.service_context import ServiceContext
from symd.v1.symbol_service_pb2 import SymbolizeRequest, SymbolizeResponse


def handle(service: ServiceContext, request: SymbolizeRequest, _call: grpc.ServicerContext) -> SymbolizeResponse:
    response = SymbolizeResponse()
    answer(service, request, response, set())
    return response
