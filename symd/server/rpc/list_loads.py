"""ContextService.ListLoads: a token is the number of the last load seen."""

from __future__ import annotations

from symd.rpc.wire.contexts import to_load
from symd.rpc.wire.resource_names import context_id
from symd.server.call import Call
from symd.server.paging import bad_token, filled, from_token, to_token
from symd.server.service_context import ServiceContext
from symd.v1.context_service_pb2 import KnownLoad, ListLoadsRequest, ListLoadsResponse

TOP = 1 << 63


def handle(service: ServiceContext, request: ListLoadsRequest, _call: Call) -> ListLoadsResponse:
    of = f"{request.parent}/loads"
    after = from_token(request.page_token, of, int, 0)
    if not 0 <= after < TOP:
        raise bad_token()
    loads = service.engine.contexts.loads(context_id(request.parent, "parent"), after)
    page = filled(loads, request.page_size, lambda each: KnownLoad(number=each[0], load=to_load(each[1])))
    return ListLoadsResponse(loads=page.entries, next_page_token=to_token(of, page.last[0]) if page.last else "")
