"""CoreService: GPU core dumps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from symd.config import Limits
from symd.model.cores import CoreDump
from symd.rpc.wire.cores import from_request, size_of, to_parts
from symd.server.batches import ResponseSizeLimit
from symd.server.call import Call
from symd.server.service_context import ServiceContext
from symd.server.work_queues import Work
from symd.v1.core_service_pb2 import ReadCoreRequest, ReadCoreResponse


def read_core(service: ServiceContext, request: ReadCoreRequest, call: Call) -> Iterator[ReadCoreResponse]:
    asked = from_request(request)
    dump = service.work_queues[Work.LARGE].run_for(call, lambda: _read(service, *asked))
    service.flight.keep(call, size_of(dump))
    yield from service.work_queues[Work.BATCH].each_for(call, to_parts(dump))


def _read(service: ServiceContext, digest: str, modules: Sequence[str]) -> CoreDump:
    dump = service.engine.core(digest, modules)
    _check_stacks(dump, service.config.limits)
    return dump


def _check_stacks(dump: CoreDump, limits: Limits) -> None:
    """Raises ``LimitExceeded`` where a stack has no room in a message: its calls may all be of functions with long
    names."""
    for stack in dump.stacks:
        room = ResponseSizeLimit(limits)
        for call in stack.frames:
            room.take_frames(call.frames)
