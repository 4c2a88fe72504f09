"""AliasService: other names of modules, made, looked up, listed and removed."""

from __future__ import annotations

from symd.errors import AliasNotFound
from symd.model.contexts import Alias
from symd.model.identities import Digest
from symd.model.texts import plural
from symd.rpc.wire.contexts import from_create_request, from_key, to_alias
from symd.rpc.wire.fields import module_digest
from symd.server.answering import method
from symd.server.call import Call
from symd.server.paging import bad_token, filled, from_token, to_token
from symd.server.service_context import ServiceContext
from symd.server.work_queues import Work
from symd.v1.alias_service_pb2 import (
    CreateAliasesRequest,
    CreateAliasesResponse,
    DeleteAliasRequest,
    DeleteAliasResponse,
    GetAliasRequest,
    GetAliasResponse,
    ListAliasesRequest,
    ListAliasesResponse,
)


@method(work=Work.WRITE)
def create_aliases(service: ServiceContext, request: CreateAliasesRequest, call: Call) -> CreateAliasesResponse:
    aliases = from_create_request(request)
    call.subject = f"{len(aliases)} {plural(len(aliases), 'alias', 'aliases')}"
    service.engine.aliases.add(aliases)
    return CreateAliasesResponse()


def get_alias(service: ServiceContext, request: GetAliasRequest, _call: Call) -> GetAliasResponse:
    kind, key, context = from_key(request)
    found = service.engine.aliases.resolve(kind, key, context)
    if found is None:
        raise AliasNotFound(f"nobody told what {key[:100]!r} of kind {kind[:100]!r} means", hint="create the alias")
    return GetAliasResponse(alias=to_alias(found))


def list_aliases(service: ServiceContext, request: ListAliasesRequest, _call: Call) -> ListAliasesResponse:
    """A token names the last alias seen."""
    digest, of = module_digest(request.module), f"{request.module}/aliases"
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


@method(work=Work.WRITE)
def delete_alias(service: ServiceContext, request: DeleteAliasRequest, call: Call) -> DeleteAliasResponse:
    call.subject = f"{request.kind} {request.key}"
    service.engine.aliases.remove(*from_key(request))
    return DeleteAliasResponse()
