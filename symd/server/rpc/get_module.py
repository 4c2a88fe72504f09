"""ModuleService.GetModule: a module that cannot be read is answered with why."""

from __future__ import annotations

from symd.errors import InvalidInput, LimitExceeded, Unsupported
from symd.rpc.wire.modules import to_module, to_unreadable_module
from symd.rpc.wire.resource_names import module_digest
from symd.server.call import Call
from symd.server.service_context import ServiceContext
from symd.v1.module_service_pb2 import GetModuleRequest, GetModuleResponse


def handle(service: ServiceContext, request: GetModuleRequest, _call: Call) -> GetModuleResponse:
    record = service.engine.record(module_digest(request.name))
    try:
        summary = service.engine.module(record.sha256)
    except (InvalidInput, LimitExceeded, Unsupported) as error:
        return GetModuleResponse(module=to_unreadable_module(record, error))
    packed = service.engine.packed_summary(record.sha256) if request.with_description else None
    return GetModuleResponse(module=to_module(record, summary, packed))
