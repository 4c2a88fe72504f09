"""AliasService.CreateAliases."""

from __future__ import annotations

from symd.model.texts import plural
from symd.rpc.wire.contexts import from_create_request
from symd.server.call import Call
from symd.server.lanes import Work
from symd.server.service_context import ServiceContext
from symd.v1.alias_service_pb2 import CreateAliasesRequest, CreateAliasesResponse

WORK = Work.WRITE


def handle(service: ServiceContext, request: CreateAliasesRequest, call: Call) -> CreateAliasesResponse:
    aliases = from_create_request(request)
    call.subject = f"{len(aliases)} {plural(len(aliases), 'alias', 'aliases')}"
    service.engine.aliases.add(aliases)
    return CreateAliasesResponse()
