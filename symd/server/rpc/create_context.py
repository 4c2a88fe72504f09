"""ContextService.CreateContext."""

from __future__ import annotations

from symd.rpc.wire.contexts import from_context, to_context_record
from symd.rpc.wire.resource_names import context_name
from symd.server.call import Call
from symd.server.lanes import Work
from symd.server.service_context import ServiceContext
from symd.v1.context_service_pb2 import CreateContextRequest, CreateContextResponse

WORK = Work.WRITE


def handle(service: ServiceContext, request: CreateContextRequest, call: Call) -> CreateContextResponse:
    name = service.engine.contexts.add(from_context(request.context))
    call.subject = context_name(name)
    return CreateContextResponse(context=to_context_record(service.engine.contexts.get(name)))
