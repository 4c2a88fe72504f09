"""NameService.FindNames."""

from __future__ import annotations

from symd.service.call import Call
from symd.service.paging import slice_page
from symd.service.service_context import ServiceContext
from symd.v1.name_service_pb2 import FindNamesRequest, FindNamesResponse
from symd.wire.names import from_request, to_item


def handle(service: ServiceContext, request: FindNamesRequest, _call: Call) -> FindNamesResponse:
    digest, wanted, path = from_request(request)
    found = service.engine.names(digest, wanted, path)
    of = f"{digest}/names/{path}/{wanted.match:d}/{sorted(wanted.kinds)}/{wanted.pattern}"
    page, token = slice_page(found, of, request.page_size, request.page_token)
    return FindNamesResponse(items=map(to_item, page), next_page_token=token)
