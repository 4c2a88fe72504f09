"""ModuleService.ListCodeObjects."""

from __future__ import annotations

from collections.abc import Sequence

from symd.model.summaries import ObjectSummary
from symd.rpc.wire.modules import to_code_object
from symd.rpc.wire.resource_names import module_digest
from symd.server.call import Call
from symd.server.paging import written_page
from symd.server.service_context import ServiceContext
from symd.v1.module_service_pb2 import ListCodeObjectsRequest, ListCodeObjectsResponse


def handle(service: ServiceContext, request: ListCodeObjectsRequest, _call: Call) -> bytes:
    found = service.engine.module(module_digest(request.parent, "parent")).objects
    of = f"{request.parent}/objects"
    return written_page(found, of, request.page_size, request.page_token, _respond)


def _respond(items: Sequence[ObjectSummary], token: str) -> ListCodeObjectsResponse:
    return ListCodeObjectsResponse(code_objects=map(to_code_object, items), next_page_token=token)
