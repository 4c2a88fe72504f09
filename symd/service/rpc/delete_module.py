"""ModuleService.DeleteModule."""

from __future__ import annotations

from symd.service.call import Call
from symd.service.lanes import Work
from symd.service.service_context import ServiceContext
from symd.v1.module_service_pb2 import DeleteModuleRequest, DeleteModuleResponse
from symd.wire.resource_names import module_digest

WORK = Work.WRITE


def handle(service: ServiceContext, request: DeleteModuleRequest, call: Call) -> DeleteModuleResponse:
    call.subject = request.name
    service.engine.remove(module_digest(request.name))
    return DeleteModuleResponse()
