"""ContextService, what a process or device had loaded and when, and AliasService, other names of modules."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import dropwhile

from symd.errors import AliasNotFound, ContextNotFound
from symd.model.contexts import Alias, ContextRecord
from symd.model.identities import Digest
from symd.model.texts import plural
from symd.rpc.wire.contexts import (
    from_context,
    from_create_request,
    from_key,
    from_record_request,
    to_alias,
    to_context_record,
    to_load,
)
from symd.rpc.wire.fields import context_id, context_name, module_digest
from symd.server.answering import method
from symd.server.call import Call
from symd.server.config import Right
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
from symd.v1.context_pb2 import Context, LoadInContext
from symd.v1.context_service_pb2 import (
    CreateContextRequest,
    CreateContextResponse,
    DeleteContextRequest,
    DeleteContextResponse,
    GetContextRequest,
    GetContextResponse,
    ListContextsRequest,
    ListContextsResponse,
    ListLoadsRequest,
    ListLoadsResponse,
    RecordEventsRequest,
    RecordEventsResponse,
)


@method(Right.WRITE, work=Work.WRITE)
def create_context(service: ServiceContext, request: CreateContextRequest, call: Call) -> CreateContextResponse:
    """Make a context known and give its record; adding it again changes nothing."""
    name = service.engine.contexts.add(from_context(request.context))
    call.subject = context_name(name)
    return CreateContextResponse(context=to_context_record(service.engine.contexts.get(name)))


@method(Right.READ)
def get_context(service: ServiceContext, request: GetContextRequest, _call: Call) -> GetContextResponse:
    """Give the record of one context. Raises ``ContextNotFound``."""
    return GetContextResponse(context=to_context_record(service.engine.contexts.get(context_id(request.context))))


LIST = "contexts"


@method(Right.READ)
def list_contexts(service: ServiceContext, request: ListContextsRequest, _call: Call) -> ListContextsResponse:
    """A token names the last context seen and its time, which counts when that one is gone."""
    records = _contexts_after(service, from_token(request.page_token, LIST, list, []))
    page = filled(records, request.page_size, to_context_record)
    token = to_token(LIST, [page.last.id, page.last.create_time]) if page.last else ""
    return ListContextsResponse(contexts=page.entries, next_page_token=token)


def _contexts_after(service: ServiceContext, position: list[str | float]) -> Iterator[ContextRecord]:
    """The contexts after the last one seen. Raises ``BadQuery``."""
    match position or ["", 0.0]:
        case [str(last), float(added)]:
            pass
        case _:
            raise bad_token()
    try:
        for record in service.engine.contexts.all(last):
            added = record.create_time
            yield record
    except ContextNotFound:
        yield from dropwhile(lambda record: record.create_time <= added, service.engine.contexts.all())


@method(Right.WRITE, work=Work.WRITE)
def delete_context(service: ServiceContext, request: DeleteContextRequest, call: Call) -> DeleteContextResponse:
    """Forget a context with its loads, unloads and aliases. Raises ``ContextNotFound``."""
    call.subject = request.context
    service.engine.contexts.remove(context_id(request.context))
    return DeleteContextResponse()


@method(Right.WRITE, work=Work.WRITE)
def record_events(service: ServiceContext, request: RecordEventsRequest, call: Call) -> RecordEventsResponse:
    """Keep what happened in a context, all of it or nothing, and give the key of each event."""
    call.subject = request.context
    keys = service.engine.contexts.record(*from_record_request(request))
    return RecordEventsResponse(keys=keys)


TOP = 1 << 63


@method(Right.READ)
def list_loads(service: ServiceContext, request: ListLoadsRequest, _call: Call) -> ListLoadsResponse:
    """A token is the number of the last load seen."""
    of = f"{request.context}/loads"
    after = from_token(request.page_token, of, int, 0)
    if not 0 <= after < TOP:
        raise bad_token()
    loads = service.engine.contexts.loads(context_id(request.context), after)
    context = Context(name=request.context)
    page = filled(
        loads, request.page_size, lambda each: LoadInContext(context=context, number=each[0], load=to_load(each[1]))
    )
    return ListLoadsResponse(loads=page.entries, next_page_token=to_token(of, page.last[0]) if page.last else "")


@method(Right.WRITE, work=Work.WRITE)
def create_aliases(service: ServiceContext, request: CreateAliasesRequest, call: Call) -> CreateAliasesResponse:
    """Make other names of modules known, all of them or none."""
    aliases = from_create_request(request)
    call.subject = f"{len(aliases)} {plural(len(aliases), 'alias', 'aliases')}"
    service.engine.aliases.add(aliases)
    return CreateAliasesResponse()


@method(Right.READ)
def get_alias(service: ServiceContext, request: GetAliasRequest, _call: Call) -> GetAliasResponse:
    """Give what a name means in a context, or else everywhere. Raises ``AliasNotFound``."""
    kind, key, context = from_key(request)
    found = service.engine.aliases.resolve(kind, key, context)
    if found is None:
        raise AliasNotFound(f"nobody told what {key[:100]!r} of kind {kind[:100]!r} means", hint="create the alias")
    return GetAliasResponse(alias=to_alias(found))


@method(Right.READ)
def list_aliases(service: ServiceContext, request: ListAliasesRequest, _call: Call) -> ListAliasesResponse:
    """A token names the last alias seen."""
    digest, of = module_digest(request.module), f"{request.module}/aliases"
    after = _aliases_after(digest, from_token(request.page_token, of, list, []))
    page = filled(service.engine.aliases.of(digest, after), request.page_size, to_alias)
    token = to_token(of, [page.last.context, page.last.kind, page.last.key]) if page.last else ""
    return ListAliasesResponse(aliases=page.entries, next_page_token=token)


def _aliases_after(digest: Digest, position: list[str]) -> Alias | None:
    """The last alias seen, None at the beginning. Raises ``BadQuery``."""
    match position:
        case []:
            return None
        case [str(context), str(kind), str(key)]:
            return Alias(kind, key, digest, context=context)
    raise bad_token()


@method(Right.WRITE, work=Work.WRITE)
def delete_alias(service: ServiceContext, request: DeleteAliasRequest, call: Call) -> DeleteAliasResponse:
    """Forget what a name means. Raises ``AliasNotFound``."""
    call.subject = f"{request.kind} {request.key}"
    service.engine.aliases.remove(*from_key(request))
    return DeleteAliasResponse()
