"""ContextService.DeleteContext."""

from __future__ import annotations

import grpc

from symd.service.parts import Parts
from symd.v1.context_service_pb2 import DeleteContextRequest, DeleteContextResponse
from symd.wire.names import context_id


def handle(parts: Parts, request: DeleteContextRequest, _context: grpc.ServicerContext) -> DeleteContextResponse:
    parts.engine.contexts.remove(context_id(request.name))
    return DeleteContextResponse()
