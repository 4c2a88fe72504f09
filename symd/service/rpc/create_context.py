"""ContextService.CreateContext."""

from __future__ import annotations

from symd.service.call import Call
from symd.service.lanes import Work
from symd.service.service_context import ServiceContext
from symd.v1.context_service_pb2 import CreateContextRequest, CreateContextResponse
from symd.wire.contexts import from_context, to_context_record
from symd.wire.resource_names import context_name

WORK = Work.WRITE


def handle(service: ServiceContext, request: CreateContextRequest, call: Call) -> CreateContextResponse:
    name = service.engine.contexts.add(from_context(request.context))
    call.subject = context_name(name)
    return CreateContextResponse(context=to_context_record(service.engine.contexts.get(name)))
