"""ContextService.ListLoads: a token is the number of the last load seen."""

from __future__ import annotations

from itertools import islice

import grpc

from symd.errors import BadQuery
from symd.service.paging import from_token, page_size, to_token
from symd.service.parts import Parts
from symd.v1.context_service_pb2 import KnownLoad, ListLoadsRequest, ListLoadsResponse
from symd.wire.contexts import to_load
from symd.wire.names import context_id

TOP = 1 << 63


def handle(parts: Parts, request: ListLoadsRequest, _context: grpc.ServicerContext) -> ListLoadsResponse:
    size, of = page_size(request.page_size), f"{request.parent}/loads"
    after = from_token(request.page_token, of, int, request.after)
    if not 0 <= after < TOP:
        raise BadQuery(f"{after} is not the number of a load")
    page = list(islice(parts.engine.contexts.loads(context_id(request.parent), after), size + 1))
    token = to_token(of, page[size - 1][0]) if len(page) > size else ""
    loads = (KnownLoad(number=number, load=to_load(load)) for number, load in page[:size])
    return ListLoadsResponse(loads=loads, next_page_token=token)
