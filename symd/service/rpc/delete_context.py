"""ContextService.DeleteContext."""

from __future__ import annotations

from symd.service.call import Call
from symd.service.lanes import Work
from symd.service.service_context import ServiceContext
from symd.v1.context_service_pb2 import DeleteContextRequest, DeleteContextResponse
from symd.wire.resource_names import context_id

WORK = Work.WRITE


def handle(service: ServiceContext, request: DeleteContextRequest, call: Call) -> DeleteContextResponse:
    call.subject = request.name
    service.engine.contexts.remove(context_id(request.name))
    return DeleteContextResponse()
