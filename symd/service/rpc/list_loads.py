"""ContextService.ListLoads: a token is the number of the last load seen."""

from __future__ import annotations

from itertools import islice

from symd.service.call import Call
from symd.service.paging import bad_token, from_token, page_size, to_token
from symd.service.service_context import ServiceContext
from symd.v1.context_service_pb2 import KnownLoad, ListLoadsRequest, ListLoadsResponse
from symd.wire.contexts import to_load
from symd.wire.resource_names import context_id

TOP = 1 << 63


def handle(service: ServiceContext, request: ListLoadsRequest, _call: Call) -> ListLoadsResponse:
    size, of = page_size(request.page_size), f"{request.parent}/loads"
    after = from_token(request.page_token, of, int, 0)
    if not 0 <= after < TOP:
        raise bad_token()
    page = list(islice(service.engine.contexts.loads(context_id(request.parent, "parent"), after), size + 1))
    token = to_token(of, page[size - 1][0]) if len(page) > size else ""
    loads = (KnownLoad(number=number, load=to_load(load)) for number, load in page[:size])
    return ListLoadsResponse(loads=loads, next_page_token=token)
