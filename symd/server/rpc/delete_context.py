"""ContextService.DeleteContext."""

from __future__ import annotations

from symd.rpc.wire.resource_names import context_id
from symd.server.call import Call
from symd.server.lanes import Work
from symd.server.service_context import ServiceContext
from symd.v1.context_service_pb2 import DeleteContextRequest, DeleteContextResponse

WORK = Work.WRITE


def handle(service: ServiceContext, request: DeleteContextRequest, call: Call) -> DeleteContextResponse:
    call.subject = request.name
    service.engine.contexts.remove(context_id(request.name))
    return DeleteContextResponse()
