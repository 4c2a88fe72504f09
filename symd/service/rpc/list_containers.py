"""ModuleService.ListContainers."""

from __future__ import annotations

from collections.abc import Sequence

from symd.model.summaries import ContainerSummary
from symd.service.call import Call
from symd.service.paging import written_page
from symd.service.service_context import ServiceContext
from symd.v1.module_service_pb2 import ListContainersRequest, ListContainersResponse
from symd.wire.modules import to_container
from symd.wire.resource_names import module_digest


def handle(service: ServiceContext, request: ListContainersRequest, _call: Call) -> bytes:
    found = service.engine.module(module_digest(request.parent, "parent")).containers
    of = f"{request.parent}/containers"
    return written_page(found, of, request.page_size, request.page_token, _respond)


def _respond(items: Sequence[ContainerSummary], token: str) -> ListContainersResponse:
    return ListContainersResponse(containers=map(to_container, items), next_page_token=token)
