"""ModuleService.ReadCodeObject."""

from __future__ import annotations

from collections.abc import Iterator

from symd.service.call import Call
from symd.service.guard import while_wanted
from symd.service.service_context import ServiceContext
from symd.v1.module_service_pb2 import ReadCodeObjectRequest, ReadCodeObjectResponse
from symd.wire.chunks import chunks_of
from symd.wire.resource_names import module_digest


def handle(service: ServiceContext, request: ReadCodeObjectRequest, call: Call) -> Iterator[ReadCodeObjectResponse]:
    data = service.engine.object_data(module_digest(request.name), request.path)
    for chunk in while_wanted(chunks_of(data, service.config.limits.upload_chunk), call):
        yield ReadCodeObjectResponse(chunk=chunk)
