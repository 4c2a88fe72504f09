"""ContextService.GetContext."""

from __future__ import annotations

from symd.rpc.wire.contexts import to_context_record
from symd.rpc.wire.resource_names import context_id
from symd.server.call import Call
from symd.server.service_context import ServiceContext
from symd.v1.context_service_pb2 import GetContextRequest, GetContextResponse


def handle(service: ServiceContext, request: GetContextRequest, _call: Call) -> GetContextResponse:
    return GetContextResponse(context=to_context_record(service.engine.contexts.get(context_id(request.name))))
