"""ModuleService.DeleteModule."""

from __future__ import annotations

from symd.rpc.wire.resource_names import module_digest
from symd.server.call import Call
from symd.server.lanes import Work
from symd.server.service_context import ServiceContext
from symd.v1.module_service_pb2 import DeleteModuleRequest, DeleteModuleResponse

WORK = Work.WRITE


def handle(service: ServiceContext, request: DeleteModuleRequest, call: Call) -> DeleteModuleResponse:
    call.subject = request.name
    service.engine.remove(module_digest(request.name))
    return DeleteModuleResponse()
