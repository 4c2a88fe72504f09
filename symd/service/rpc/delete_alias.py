"""AliasService.DeleteAlias."""

from __future__ import annotations

from symd.service.call import Call
from symd.service.lanes import Work
from symd.service.service_context import ServiceContext
from symd.v1.alias_service_pb2 import DeleteAliasRequest, DeleteAliasResponse
from symd.wire.aliases import from_key

WORK = Work.WRITE


def handle(service: ServiceContext, request: DeleteAliasRequest, call: Call) -> DeleteAliasResponse:
    call.subject = f"{request.kind} {request.key}"
    service.engine.aliases.remove(*from_key(request))
    return DeleteAliasResponse()
