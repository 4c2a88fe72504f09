"""NameService.FindNames."""

from __future__ import annotations

import grpc

from symd.service.guard import check_deadline
from symd.service.paging import slice_page
from symd.service.parts import Parts
from symd.v1.name_service_pb2 import FindNamesRequest, FindNamesResponse
from symd.wire.found_names import from_wanted, to_entry
from symd.wire.names import module_digest


def handle(parts: Parts, request: FindNamesRequest, context: grpc.ServicerContext) -> FindNamesResponse:
    check_deadline(context)
    wanted = from_wanted(request)
    only = request.object if request.HasField("object") else None
    found = parts.engine.names(module_digest(request.name), wanted, only)
    of = f"{request.name}/names/{only}/{wanted.match:d}/{sorted(wanted.kinds)}/{wanted.pattern}"
    page, token = slice_page(found, of, request.page_size, request.page_token)
    return FindNamesResponse(names=map(to_entry, page), next_page_token=token)
