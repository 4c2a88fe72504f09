"""ContextService.RecordEvents."""

from __future__ import annotations

from symd.rpc.wire.contexts import from_record_request
from symd.server.call import Call
from symd.server.lanes import Work
from symd.server.service_context import ServiceContext
from symd.v1.context_service_pb2 import RecordEventsRequest, RecordEventsResponse

WORK = Work.WRITE


def handle(service: ServiceContext, request: RecordEventsRequest, call: Call) -> RecordEventsResponse:
    call.subject = request.name
    keys = service.engine.contexts.record(*from_record_request(request))
    return RecordEventsResponse(keys=keys)
