"""AliasService.CreateAliases."""

from __future__ import annotations

import grpc

from symd.service.parts import Parts
from symd.v1.alias_service_pb2 import CreateAliasesRequest, CreateAliasesResponse
from symd.wire.contexts import from_alias


def handle(parts: Parts, request: CreateAliasesRequest, _context: grpc.ServicerContext) -> CreateAliasesResponse:
    parts.engine.aliases.add([from_alias(alias) for alias in request.aliases])
    return CreateAliasesResponse()
