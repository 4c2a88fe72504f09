"""ModuleService.GetModule."""

from __future__ import annotations

import grpc

from symd.service.parts import Parts
from symd.v1.module_service_pb2 import GetModuleRequest, GetModuleResponse
from symd.wire.modules import to_module
from symd.wire.names import module_digest


def handle(parts: Parts, request: GetModuleRequest, _context: grpc.ServicerContext) -> GetModuleResponse:
    return GetModuleResponse(module=to_module(parts.engine.module(module_digest(request.name))))
