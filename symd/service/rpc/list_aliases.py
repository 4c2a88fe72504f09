"""AliasService.ListAliases: a token names the last alias seen."""

from __future__ import annotations

from itertools import islice

from symd.model.contexts import Alias
from symd.model.identities import Digest
from symd.service.call import Call
from symd.service.paging import bad_token, from_token, page_size, to_token
from symd.service.service_context import ServiceContext
from symd.v1.alias_service_pb2 import ListAliasesRequest, ListAliasesResponse
from symd.wire.aliases import to_alias
from symd.wire.resource_names import module_digest


def handle(service: ServiceContext, request: ListAliasesRequest, _call: Call) -> ListAliasesResponse:
    digest, of = module_digest(request.parent, "parent"), f"{request.parent}/aliases"
    size, after = page_size(request.page_size), _after(digest, from_token(request.page_token, of, list, []))
    page = list(islice(service.engine.aliases.of(digest, after), size + 1))
    last = page[size - 1] if len(page) > size else None
    token = to_token(of, [last.context, last.kind, last.key]) if last else ""
    return ListAliasesResponse(aliases=map(to_alias, page[:size]), next_page_token=token)


def _after(digest: Digest, position: list[str]) -> Alias | None:
    """The last alias seen, None at the beginning. Raises ``BadQuery``."""
    match position:
        case []:
            return None
        case [str(context), str(kind), str(key)]:
            return Alias(kind, key, digest, context=context)
    raise bad_token()
