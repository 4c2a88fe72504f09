"""VariableService.GetVariables."""

from __future__ import annotations

from symd.service.call import Call
from symd.service.service_context import ServiceContext
from symd.v1.variable_service_pb2 import GetVariablesRequest, GetVariablesResponse
from symd.wire.variables import from_request, to_response


def handle(service: ServiceContext, request: GetVariablesRequest, _call: Call) -> GetVariablesResponse:
    return to_response(service.engine.variables(*from_request(request)))
