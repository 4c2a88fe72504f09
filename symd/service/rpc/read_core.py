"""CoreService.ReadCore."""

from __future__ import annotations

from collections.abc import Iterator

from symd.config import Limits
from symd.model.cores import CoreDump
from symd.service.batches import RowRoom
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
    _check_stacks(dump, service.config.limits)
    service.flight.keep(call, size_of(dump))
    yield from while_wanted(to_parts(dump), call)


def _check_stacks(dump: CoreDump, limits: Limits) -> None:
    """Raises ``LimitExceeded`` where a stack has no room in a message: its calls may all be of functions with long names."""
    for stack in dump.stacks:
        room = RowRoom(limits)
        for call in stack.frames:
            room.take_frames(call.frames)
