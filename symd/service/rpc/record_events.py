"""ContextService.RecordEvents."""

from __future__ import annotations

from symd.service.call import Call
from symd.service.lanes import Work
from symd.service.service_context import ServiceContext
from symd.v1.context_service_pb2 import RecordEventsRequest, RecordEventsResponse
from symd.wire.contexts import from_record_request

WORK = Work.WRITE


def handle(service: ServiceContext, request: RecordEventsRequest, call: Call) -> RecordEventsResponse:
    call.subject = request.name
    keys = service.engine.contexts.record(*from_record_request(request))
    return RecordEventsResponse(keys=keys)
