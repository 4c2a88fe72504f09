"""AliasService.ListAliases: a token names the last alias seen."""

from __future__ import annotations

from symd.model.contexts import Alias
from symd.model.identities import Digest
from symd.rpc.wire.contexts import to_alias
from symd.rpc.wire.resource_names import module_digest
from symd.server.call import Call
from symd.server.paging import bad_token, filled, from_token, to_token
from symd.server.service_context import ServiceContext
from symd.v1.alias_service_pb2 import ListAliasesRequest, ListAliasesResponse


def handle(service: ServiceContext, request: ListAliasesRequest, _call: Call) -> ListAliasesResponse:
    digest, of = module_digest(request.parent, "parent"), f"{request.parent}/aliases"
    after = _after(digest, from_token(request.page_token, of, list, []))
    page = filled(service.engine.aliases.of(digest, after), request.page_size, to_alias)
    token = to_token(of, [page.last.context, page.last.kind, page.last.key]) if page.last else ""
    return ListAliasesResponse(aliases=page.entries, next_page_token=token)


def _after(digest: Digest, position: list[str]) -> Alias | None:
    """The last alias seen, None at the beginning. Raises ``BadQuery``."""
    match position:
        case []:
            return None
        case [str(context), str(kind), str(key)]:
            return Alias(kind, key, digest, context=context)
    raise bad_token()
