"""NameService: functions, kernels and files by name."""

from __future__ import annotations

from symd.rpc.wire.names import from_request, to_item
from symd.server.call import Call
from symd.server.guard import while_waited_for
from symd.server.paging import slice_page
from symd.server.service_context import ServiceContext
from symd.v1.name_service_pb2 import FindNamesRequest, FindNamesResponse


def find_names(service: ServiceContext, request: FindNamesRequest, call: Call) -> FindNamesResponse:
    digest, wanted, path = from_request(request)
    with while_waited_for(call, service.config.limits):
        found = service.engine.names(digest, wanted, path)
    of = f"{digest}/names/{path}/{wanted.match:d}/{sorted(wanted.kinds)}/{wanted.pattern}"
    items, token = slice_page(found, of, request.page_size, request.page_token, to_item)
    return FindNamesResponse(items=items, next_page_token=token)
