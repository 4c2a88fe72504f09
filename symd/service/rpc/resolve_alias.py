"""AliasService.ResolveAlias."""

from __future__ import annotations

import grpc

from symd.service.parts import Parts
from symd.v1.alias_service_pb2 import ResolveAliasRequest, ResolveAliasResponse
from symd.wire.contexts import scope, to_alias


def handle(parts: Parts, request: ResolveAliasRequest, _context: grpc.ServicerContext) -> ResolveAliasResponse:
    found = parts.engine.aliases.resolve(request.kind, request.key, scope(request.context))
    return ResolveAliasResponse(alias=to_alias(found) if found else None)
