"""ModuleService.GrabModule: the build log first, also of a build that failed, then the result and its bytes."""

from __future__ import annotations

from collections.abc import Iterator

from symd.errors import BuildFailed
from symd.model.grabs import Grabbed
from symd.service.call import Call
from symd.service.guard import while_wanted
from symd.service.lanes import Work
from symd.service.service_context import ServiceContext
from symd.v1.module_service_pb2 import GrabModuleRequest, GrabModuleResponse
from symd.wire.chunks import chunks_of
from symd.wire.grabs import from_grab_request, log_chunks, to_result

WORK = Work.GRAB


def handle(service: ServiceContext, request: GrabModuleRequest, call: Call) -> Iterator[GrabModuleResponse]:
    wanted = from_grab_request(request, call.time_remaining())
    try:
        module, grabbed = service.engine.grab(wanted)
    except BuildFailed as error:
        yield from log_chunks(error.build_log)
        raise
    yield from log_chunks(grabbed.build_log)
    yield GrabModuleResponse(result=to_result(service.engine.record(module.sha256), module, grabbed))
    if request.include_bytes:
        yield from while_wanted(_bytes(grabbed, service.config.limits.upload_chunk), call)


def _bytes(grabbed: Grabbed, size: int) -> Iterator[GrabModuleResponse]:
    for chunk in chunks_of(grabbed.debug_data, size):
        yield GrabModuleResponse(debug_data=chunk)
    for chunk in chunks_of(grabbed.native, size):
        yield GrabModuleResponse(native=chunk)
