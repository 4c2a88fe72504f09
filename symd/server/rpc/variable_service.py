"""VariableService: what is in scope at an address."""

from __future__ import annotations

from symd.rpc.wire.variables import from_request, to_response
from symd.server.batches import ResponseSizeLimit
from symd.server.call import Call
from symd.server.service_context import ServiceContext
from symd.v1.variable_service_pb2 import GetVariablesRequest, GetVariablesResponse


def get_variables(service: ServiceContext, request: GetVariablesRequest, _call: Call) -> GetVariablesResponse:
    found = service.engine.variables(*from_request(request))
    ResponseSizeLimit(service.config.limits).taken_by(found.at)
    return to_response(found)
