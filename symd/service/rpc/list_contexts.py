"""ContextService.ListContexts."""

from __future__ import annotations

from itertools import islice

import grpc

from symd.service.paging import from_token, page_size, to_token
from symd.service.parts import Parts
from symd.v1.context_service_pb2 import ListContextsRequest, ListContextsResponse
from symd.wire.contexts import scope, to_context_record

LIST = "contexts"


def handle(parts: Parts, request: ListContextsRequest, _context: grpc.ServicerContext) -> ListContextsResponse:
    size, after = page_size(request.page_size), from_token(request.page_token, LIST, str, scope(request.after))
    page = list(islice(parts.engine.contexts.all(after), size + 1))
    token = to_token(LIST, page[size - 1].id) if len(page) > size else ""
    return ListContextsResponse(contexts=map(to_context_record, page[:size]), next_page_token=token)
