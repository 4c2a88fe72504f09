"""ContextService.CreateContext."""

from __future__ import annotations

from symd.service.call import Call
from symd.service.service_context import ServiceContext
from symd.v1.context_service_pb2 import CreateContextRequest, CreateContextResponse
from symd.wire.contexts import from_context, to_context_record


def handle(service: ServiceContext, request: CreateContextRequest, _call: Call) -> CreateContextResponse:
    name = service.engine.contexts.add(from_context(request.context))
    return CreateContextResponse(context=to_context_record(service.engine.contexts.get(name)))
