"""VariableService: what is in scope at an address."""

from __future__ import annotations

from symd.rpc.wire.variables import from_request, to_place
from symd.server.batches import ResponseSizeLimit
from symd.server.call import Call
from symd.server.guard import check_waited_for
from symd.server.service_context import ServiceContext
from symd.v1.variable_service_pb2 import GetVariablesRequest, GetVariablesResponse

AT_ONCE = 16
"""Addresses whose variables are read together: as many as a stack has, and not so many that they fill the memory."""


def get_variables(service: ServiceContext, request: GetVariablesRequest, call: Call) -> GetVariablesResponse:
    digest, queries, path = from_request(request)
    room, response = ResponseSizeLimit(service.config.limits), GetVariablesResponse()
    for start in range(0, len(queries), AT_ONCE):
        check_waited_for(call)
        part = queries[start : start + AT_ONCE]
        for found in service.engine.variables(digest, part, path, with_ranges=request.with_ranges):
            room.taken_by(found.at)
            room.take_device_candidates(found.device_candidates)
            place = to_place(found)
            room.take_variables(place.ByteSize())
            response.places.append(place)
    return response
