"""ModuleService.ReadCodeObject."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from symd.rpc.wire.resource_names import module_digest
from symd.server.call import Call
from symd.server.guard import while_wanted
from symd.server.lanes import Work
from symd.server.service_context import ServiceContext
from symd.v1.module_service_pb2 import ReadCodeObjectRequest, ReadCodeObjectResponse


def handle(service: ServiceContext, request: ReadCodeObjectRequest, call: Call) -> Iterator[ReadCodeObjectResponse]:
    size = service.config.limits.upload_chunk
    asking = partial(service.engine.object_pieces, module_digest(request.name), request.path, size)
    for chunk in while_wanted(service.lanes[Work.LARGE].run_for(call, asking), call):
        yield ReadCodeObjectResponse(chunk=chunk)
