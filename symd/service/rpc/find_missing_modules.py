"""ModuleService.FindMissingModules."""

from __future__ import annotations

import grpc

from symd.service.parts import Parts
from symd.v1.module_service_pb2 import FindMissingModulesRequest, FindMissingModulesResponse
from symd.wire.names import module_digest, module_name


def handle(
    parts: Parts, request: FindMissingModulesRequest, _context: grpc.ServicerContext
) -> FindMissingModulesResponse:
    digests = [module_digest(name) for name in request.names]
    missing = parts.engine.missing(digests)
    return FindMissingModulesResponse(names=map(module_name, missing))
