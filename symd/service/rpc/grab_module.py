"""ModuleService.GrabModule: the build log first, also of a build that failed, then the result and its bytes."""

from __future__ import annotations

from collections.abc import Iterator

import grpc

from symd.errors import BuildFailed, InvalidInput
from symd.model.grabs import Grabbed
from symd.service.guard import check_deadline, while_wanted
from symd.service.parts import Parts
from symd.v1.module_service_pb2 import GrabModuleRequest, GrabModuleResponse
from symd.wire.grabs import from_grab_request, log_pieces, to_result
from symd.wire.pieces import pieces

USUAL_SECONDS = 60.0


def handle(parts: Parts, request: GrabModuleRequest, context: grpc.ServicerContext) -> Iterator[GrabModuleResponse]:
    check_deadline(context)
    wanted = from_grab_request(request, _time(request, context))
    with parts.slots.taken():
        try:
            module, grabbed = parts.engine.grab(wanted)
        except BuildFailed as error:
            yield from log_pieces(error.build_log)
            raise
        yield from log_pieces(grabbed.build_log)
        yield GrabModuleResponse(result=to_result(module, grabbed))
        if request.include_bytes:
            yield from while_wanted(_bytes(grabbed, parts.config.limits.upload_chunk), context)


def _time(request: GrabModuleRequest, context: grpc.ServicerContext) -> float:
    """Seconds the driver gets: what was asked, but not beyond the call's own deadline."""
    if not 0 <= request.timeout_seconds < float("inf"):
        raise InvalidInput(f"timeout_seconds is {request.timeout_seconds}", hint="give seconds, or 0 for the usual")
    asked = request.timeout_seconds or USUAL_SECONDS
    remaining = context.time_remaining()
    return asked if remaining is None else min(asked, remaining)


def _bytes(grabbed: Grabbed, size: int) -> Iterator[GrabModuleResponse]:
    for piece in pieces(grabbed.debug_data, size):
        yield GrabModuleResponse(debug_data=piece)
    for piece in pieces(grabbed.native, size):
        yield GrabModuleResponse(native=piece)
