"""ModuleService.UploadModule: chunks go to the disk as they come; a module is kept only once it is whole, announced and
indexed."""

from __future__ import annotations

from collections.abc import Iterator

from symd.api import Receiving
from symd.config import Limits
from symd.errors import HashMismatch, LimitExceeded
from symd.model.identities import checked_digest
from symd.rpc.wire.fields import wrong_field
from symd.rpc.wire.modules import to_module
from symd.rpc.wire.resource_names import module_name
from symd.server.call import Call
from symd.server.guard import check_deadline
from symd.server.lanes import Work
from symd.server.messages import module_too_large
from symd.server.service_context import ServiceContext
from symd.v1.module_service_pb2 import UploadHeader, UploadModuleRequest, UploadModuleResponse

WORK = Work.UPLOAD


def handle(service: ServiceContext, requests: Iterator[UploadModuleRequest], call: Call) -> UploadModuleResponse:
    header = _header(requests, service.config.limits)
    call.subject = module_name(header.sha256)
    with service.engine.receive(header.label) as arriving:
        _receive(requests, header, arriving, service.config.limits)
        check_deadline(call)
        service.check_running()
        module = arriving.commit(header.sha256)
    packed = service.engine.packed_summary(module.sha256) if header.with_description else None
    return UploadModuleResponse(module=to_module(service.engine.record(module.sha256), module, packed))


def _header(requests: Iterator[UploadModuleRequest], limits: Limits) -> UploadHeader:
    first = next(requests, None)
    if first is None or first.WhichOneof("part") != "header":
        raise wrong_field("header", "an upload begins with its header", "send UploadHeader first")
    checked_digest(first.header.sha256)
    if first.header.size_bytes > limits.module_size:
        size, most = first.header.size_bytes, limits.module_size
        raise module_too_large(f"the module has {size} bytes, at most {most} are taken", most)
    return first.header


def _receive(
    requests: Iterator[UploadModuleRequest], header: UploadHeader, arriving: Receiving, limits: Limits
) -> None:
    """Take the announced number of bytes. Raises ``HashMismatch`` when fewer or more came."""
    for request in requests:
        chunk = _chunk(request, limits)
        if arriving.size + len(chunk) > header.size_bytes:
            raise _mismatch(f"more than the announced {header.size_bytes} bytes came")
        arriving.write(chunk)
    if arriving.size != header.size_bytes:
        raise _mismatch(f"{arriving.size} of the announced {header.size_bytes} bytes came")


def _chunk(request: UploadModuleRequest, limits: Limits) -> bytes:
    if request.WhichOneof("part") != "chunk":
        raise wrong_field("chunk", "after the header an upload has chunks only")
    if len(request.chunk) > limits.upload_chunk:
        raise LimitExceeded(
            f"a chunk has {len(request.chunk)} bytes, at most {limits.upload_chunk} are taken",
            hint="send smaller chunks",
            metadata={"limit": "upload_chunk", "value": str(limits.upload_chunk)},
        )
    return request.chunk


def _mismatch(what: str) -> HashMismatch:
    return HashMismatch(what, hint="send the module again")
