"""ContextService.RecordEvents."""

from __future__ import annotations

import grpc

from symd.service.guard import check_deadline
from symd.service.parts import Parts
from symd.v1.context_service_pb2 import RecordEventsRequest, RecordEventsResponse
from symd.wire.contexts import from_events
from symd.wire.names import context_id


def handle(parts: Parts, request: RecordEventsRequest, context: grpc.ServicerContext) -> RecordEventsResponse:
    check_deadline(context)
    keys = parts.engine.contexts.record(context_id(request.name), from_events(request.events))
    return RecordEventsResponse(keys=keys)
