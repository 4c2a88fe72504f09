"""ModuleService.UpdateModule."""

from __future__ import annotations

from symd.service.call import Call
from symd.service.lanes import Work
from symd.service.service_context import ServiceContext
from symd.v1.module_service_pb2 import UpdateModuleRequest, UpdateModuleResponse
from symd.wire.modules import from_update_request, to_module
from symd.wire.resource_names import module_name

WORK = Work.WRITE


def handle(service: ServiceContext, request: UpdateModuleRequest, call: Call) -> UpdateModuleResponse:
    digest, label = from_update_request(request)
    call.subject = module_name(digest)
    return UpdateModuleResponse(module=to_module(service.engine.relabel(digest, label)))
