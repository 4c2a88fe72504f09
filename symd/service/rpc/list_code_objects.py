"""ModuleService.ListCodeObjects."""

from __future__ import annotations

from collections.abc import Sequence

from symd.model.summaries import ObjectSummary
from symd.service.call import Call
from symd.service.paging import written_page
from symd.service.service_context import ServiceContext
from symd.v1.module_service_pb2 import ListCodeObjectsRequest, ListCodeObjectsResponse
from symd.wire.modules import to_code_object
from symd.wire.resource_names import module_digest


def handle(service: ServiceContext, request: ListCodeObjectsRequest, _call: Call) -> bytes:
    found = service.engine.module(module_digest(request.parent, "parent")).objects
    of = f"{request.parent}/objects"
    return written_page(found, of, request.page_size, request.page_token, _respond)


def _respond(items: Sequence[ObjectSummary], token: str) -> ListCodeObjectsResponse:
    return ListCodeObjectsResponse(code_objects=map(to_code_object, items), next_page_token=token)
