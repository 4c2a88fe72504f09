"""AliasService.DeleteAlias."""

from __future__ import annotations

from symd.rpc.wire.contexts import from_key
from symd.server.call import Call
from symd.server.lanes import Work
from symd.server.service_context import ServiceContext
from symd.v1.alias_service_pb2 import DeleteAliasRequest, DeleteAliasResponse

WORK = Work.WRITE


def handle(service: ServiceContext, request: DeleteAliasRequest, call: Call) -> DeleteAliasResponse:
    call.subject = f"{request.kind} {request.key}"
    service.engine.aliases.remove(*from_key(request))
    return DeleteAliasResponse()
