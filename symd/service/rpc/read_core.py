"""CoreService.ReadCore."""

from __future__ import annotations

from collections.abc import Iterator

from symd.service.call import Call
from symd.service.guard import while_wanted
from symd.service.semaphores import acquired
from symd.service.service_context import ServiceContext
from symd.v1.core_service_pb2 import ReadCoreRequest, ReadCoreResponse
from symd.wire.cores import from_request, size_of, to_parts


def handle(service: ServiceContext, request: ReadCoreRequest, call: Call) -> Iterator[ReadCoreResponse]:
    asked = from_request(request)
    with acquired(service.large_answers, call):
        dump = service.engine.core(*asked)
    service.flight.keep(call, size_of(dump))
    yield from while_wanted(to_parts(dump), call)
