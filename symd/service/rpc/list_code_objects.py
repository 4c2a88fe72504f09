"""ModuleService.ListCodeObjects."""

from __future__ import annotations

from symd.service.call import Call
from symd.service.paging import slice_page
from symd.service.service_context import ServiceContext
from symd.v1.module_service_pb2 import ListCodeObjectsRequest, ListCodeObjectsResponse
from symd.wire.modules import to_code_object
from symd.wire.resource_names import module_digest


def handle(service: ServiceContext, request: ListCodeObjectsRequest, _call: Call) -> ListCodeObjectsResponse:
    objects = service.engine.module(module_digest(request.parent, "parent")).objects
    of = f"{request.parent}/objects"
    page, token = slice_page(objects, of, request.page_size, request.page_token, to_code_object)
    return ListCodeObjectsResponse(code_objects=page, next_page_token=token)
