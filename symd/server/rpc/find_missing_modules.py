"""ModuleService.FindMissingModules."""

from __future__ import annotations

from symd.rpc.wire.resource_names import module_digest, module_name
from symd.server.call import Call
from symd.server.service_context import ServiceContext
from symd.v1.module_service_pb2 import FindMissingModulesRequest, FindMissingModulesResponse


def handle(service: ServiceContext, request: FindMissingModulesRequest, _call: Call) -> FindMissingModulesResponse:
    digests = [module_digest(name, "names") for name in request.names]
    missing = service.engine.missing(digests)
    return FindMissingModulesResponse(names=map(module_name, missing))
