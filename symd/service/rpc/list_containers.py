"""ModuleService.ListContainers."""

from __future__ import annotations

from symd.service.call import Call
from symd.service.paging import slice_page
from symd.service.service_context import ServiceContext
from symd.v1.module_service_pb2 import ListContainersRequest, ListContainersResponse
from symd.wire.modules import to_container
from symd.wire.resource_names import module_digest


def handle(service: ServiceContext, request: ListContainersRequest, _call: Call) -> ListContainersResponse:
    containers = service.engine.module(module_digest(request.parent, "parent")).containers
    of = f"{request.parent}/containers"
    page, token = slice_page(containers, of, request.page_size, request.page_token, to_container)
    return ListContainersResponse(containers=page, next_page_token=token)
