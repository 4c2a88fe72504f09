"""ContextService.CreateContext."""

from __future__ import annotations

import grpc

from symd.service.parts import Parts
from symd.v1.context_service_pb2 import CreateContextRequest, CreateContextResponse
from symd.wire.contexts import from_context, to_context_record


def handle(parts: Parts, request: CreateContextRequest, _context: grpc.ServicerContext) -> CreateContextResponse:
    name = parts.engine.contexts.add(from_context(request.context))
    return CreateContextResponse(context=to_context_record(parts.engine.contexts.get(name)))
