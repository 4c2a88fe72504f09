"""AliasService.GetAlias."""

from __future__ import annotations

from symd.errors import AliasNotFound
from symd.rpc.wire.contexts import from_key, to_alias
from symd.server.call import Call
from symd.server.service_context import ServiceContext
from symd.v1.alias_service_pb2 import GetAliasRequest, GetAliasResponse


def handle(service: ServiceContext, request: GetAliasRequest, _call: Call) -> GetAliasResponse:
    kind, key, context = from_key(request)
    found = service.engine.aliases.resolve(kind, key, context)
    if found is None:
        raise AliasNotFound(f"nobody told what {key[:100]!r} of kind {kind[:100]!r} means", hint="create the alias")
    return GetAliasResponse(alias=to_alias(found))
