"""ModuleService.GrabModule: the build log first, also of a build that failed, then the result and its bytes."""

from __future__ import annotations

from collections.abc import Iterator

from symd.errors import BuildFailed, FailedPrecondition
from symd.model.grabs import Grabbed
from symd.rpc.wire.fields import chunks_of
from symd.rpc.wire.grabs import from_grab_request, log_chunks, to_result
from symd.rpc.wire.resource_names import module_name
from symd.server.call import Call, CallEnded
from symd.server.guard import while_wanted
from symd.server.lanes import Work
from symd.server.service_context import ServiceContext
from symd.system.process import confinement
from symd.system.process.run import Cancelled
from symd.v1.module_service_pb2 import GrabModuleRequest, GrabModuleResponse

WORK = Work.GRAB


def handle(service: ServiceContext, request: GrabModuleRequest, call: Call) -> Iterator[GrabModuleResponse]:
    _check_confined(service, call)
    wanted = from_grab_request(request, call.time_remaining())
    try:
        module, grabbed = service.engine.grab(wanted, call.add_callback)
    except Cancelled:
        raise CallEnded from None
    except BuildFailed as error:
        yield from log_chunks(error.build_log)
        raise
    call.subject = module_name(module.sha256)
    yield from log_chunks(grabbed.build_log)
    yield GrabModuleResponse(result=to_result(service.engine.record(module.sha256), module, grabbed))
    if request.include_bytes:
        yield from while_wanted(_bytes(grabbed, service.config.limits.upload_chunk), call)


def _check_confined(service: ServiceContext, call: Call) -> None:
    """Raises FailedPrecondition where others than the daemon's user would have a driver read what that user can."""
    if not (call.is_owner or service.config.doors.grab_unconfined or confinement.available()):
        raise FailedPrecondition(
            "this machine's kernel cannot confine drivers, so they run for the daemon's user alone",
            hint="a kernel with Landlock (Linux 5.13 and later), or symd serve --grab-unconfined",
        )


def _bytes(grabbed: Grabbed, size: int) -> Iterator[GrabModuleResponse]:
    for chunk in chunks_of(grabbed.debug_data, size):
        yield GrabModuleResponse(debug_data=chunk)
    for chunk in chunks_of(grabbed.native, size):
        yield GrabModuleResponse(native=chunk)
