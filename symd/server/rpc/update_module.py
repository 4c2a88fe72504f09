"""ModuleService.UpdateModule."""

from __future__ import annotations

from symd.rpc.wire.modules import from_update_request, to_module
from symd.rpc.wire.resource_names import module_name
from symd.server.call import Call
from symd.server.lanes import Work
from symd.server.service_context import ServiceContext
from symd.v1.module_service_pb2 import UpdateModuleRequest, UpdateModuleResponse

WORK = Work.WRITE


def handle(service: ServiceContext, request: UpdateModuleRequest, call: Call) -> UpdateModuleResponse:
    digest, label = from_update_request(request)
    call.subject = module_name(digest)
    return UpdateModuleResponse(module=to_module(service.engine.relabel(digest, label)))
