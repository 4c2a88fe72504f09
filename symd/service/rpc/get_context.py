"""ContextService.GetContext."""

from __future__ import annotations

from symd.service.call import Call
from symd.service.service_context import ServiceContext
from symd.v1.context_service_pb2 import GetContextRequest, GetContextResponse
from symd.wire.contexts import to_context_record
from symd.wire.resource_names import context_id


def handle(service: ServiceContext, request: GetContextRequest, _call: Call) -> GetContextResponse:
    return GetContextResponse(context=to_context_record(service.engine.contexts.get(context_id(request.name))))
