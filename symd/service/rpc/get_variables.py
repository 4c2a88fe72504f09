"""VariableService.GetVariables."""

from __future__ import annotations

import grpc

from symd.service.guard import check_deadline
from symd.service.parts import Parts
from symd.v1.variable_service_pb2 import GetVariablesRequest, GetVariablesResponse
from symd.wire.names import module_digest
from symd.wire.queries import from_query
from symd.wire.variables import to_response


def handle(parts: Parts, request: GetVariablesRequest, context: grpc.ServicerContext) -> GetVariablesResponse:
    check_deadline(context)
    path = request.object if request.HasField("object") else None
    return to_response(parts.engine.variables(module_digest(request.name), from_query(request.query), path))
