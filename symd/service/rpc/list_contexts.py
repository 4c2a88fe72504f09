"""ContextService.ListContexts."""

from __future__ import annotations

from itertools import islice

import grpc

from symd.service.paging import from_token, page_size, to_token
from symd.service.service_context import ServiceContext
from symd.v1.context_service_pb2 import ListContextsRequest, ListContextsResponse
from symd.wire.contexts import to_context_record

LIST = "contexts"


def handle(service: ServiceContext, request: ListContextsRequest, _call: grpc.ServicerContext) -> ListContextsResponse:
    size, after = page_size(request.page_size), from_token(request.page_token, LIST, str, "")
    page = list(islice(service.engine.contexts.all(after), size + 1))
    token = to_token(LIST, page[size - 1].id) if len(page) > size else ""
    return ListContextsResponse(contexts=map(to_context_record, page[:size]), next_page_token=token)
