"""ModuleService.ListContainers."""

from __future__ import annotations

from collections.abc import Sequence

from symd.model.summaries import ContainerSummary
from symd.rpc.wire.modules import to_container
from symd.rpc.wire.resource_names import module_digest
from symd.server.call import Call
from symd.server.paging import written_page
from symd.server.service_context import ServiceContext
from symd.v1.module_service_pb2 import ListContainersRequest, ListContainersResponse


def handle(service: ServiceContext, request: ListContainersRequest, _call: Call) -> bytes:
    found = service.engine.module(module_digest(request.parent, "parent")).containers
    of = f"{request.parent}/containers"
    return written_page(found, of, request.page_size, request.page_token, _respond)


def _respond(items: Sequence[ContainerSummary], token: str) -> ListContainersResponse:
    return ListContainersResponse(containers=map(to_container, items), next_page_token=token)
