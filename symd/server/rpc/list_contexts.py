"""ContextService.ListContexts: a token names the last context seen and its time, which counts when that one is gone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import dropwhile

from symd.errors import ContextNotFound
from symd.model.contexts import ContextRecord
from symd.rpc.wire.contexts import to_context_record
from symd.server.call import Call
from symd.server.paging import bad_token, filled, from_token, to_token
from symd.server.service_context import ServiceContext
from symd.v1.context_service_pb2 import ListContextsRequest, ListContextsResponse

LIST = "contexts"


def handle(service: ServiceContext, request: ListContextsRequest, _call: Call) -> ListContextsResponse:
    records = _after(service, from_token(request.page_token, LIST, list, []))
    page = filled(records, request.page_size, to_context_record)
    token = to_token(LIST, [page.last.id, page.last.create_time]) if page.last else ""
    return ListContextsResponse(contexts=page.entries, next_page_token=token)


def _after(service: ServiceContext, position: list[str | float]) -> Iterator[ContextRecord]:
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
