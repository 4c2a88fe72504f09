"""ContextService.SymbolizeAddresses."""

from __future__ import annotations

from symd.rpc.wire.contexts import from_request, to_device_columns
from symd.server.batches import check_device_candidates
from symd.server.call import Call
from symd.server.guard import while_waited_for
from symd.server.lanes import Work
from symd.server.service_context import ServiceContext
from symd.v1.context_service_pb2 import SymbolizeAddressesRequest, SymbolizeAddressesResponse

WORK = Work.BATCH


def handle(service: ServiceContext, request: SymbolizeAddressesRequest, call: Call) -> SymbolizeAddressesResponse:
    with service.addresses_at_work.acquired(request.count):
        question = from_request(request, service.config.limits.batch)
        check_wanted = while_waited_for(call, service.config.limits)
        answers = service.engine.contexts.symbolize(*question, check_wanted=check_wanted)
        check_device_candidates(answers, service.config.limits)
        return SymbolizeAddressesResponse(answers=to_device_columns(answers))
