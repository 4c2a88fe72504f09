"""ContextService.SymbolizeAddresses."""

from __future__ import annotations

import grpc

from symd.service.batches import check_size
from symd.service.guard import check_deadline
from symd.service.parts import Parts
from symd.v1.context_service_pb2 import SymbolizeAddressesRequest, SymbolizeAddressesResponse
from symd.wire.device import from_request, request_length, to_device_columns
from symd.wire.names import context_id


def handle(
    parts: Parts, request: SymbolizeAddressesRequest, context: grpc.ServicerContext
) -> SymbolizeAddressesResponse:
    check_deadline(context)
    name = context_id(request.name)
    check_size(request_length(request), parts.config.limits.batch)
    values, times, form = from_request(request)
    answers = parts.engine.contexts.symbolize(name, values, times, form)
    return SymbolizeAddressesResponse(answers=to_device_columns(answers))
