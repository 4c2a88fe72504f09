"""ModuleService.ListCodeObjects."""

from __future__ import annotations

import grpc

from symd.service.paging import slice_page
from symd.service.parts import Parts
from symd.v1.module_service_pb2 import ListCodeObjectsRequest, ListCodeObjectsResponse
from symd.wire.modules import to_code_object
from symd.wire.names import module_digest


def handle(parts: Parts, request: ListCodeObjectsRequest, _context: grpc.ServicerContext) -> ListCodeObjectsResponse:
    objects = parts.engine.module(module_digest(request.parent)).objects
    page, token = slice_page(objects, f"{request.parent}/objects", request.page_size, request.page_token)
    return ListCodeObjectsResponse(code_objects=map(to_code_object, page), next_page_token=token)
