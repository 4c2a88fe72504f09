"""ModuleService.UploadModule: chunks go to the disk as they come; a module is kept only once it is whole, announced and
indexed."""

from __future__ import annotations

from collections.abc import Iterator

import grpc

from symd.api import Receiving
from symd.config import Limits
from symd.errors import HashMismatch, InvalidInput, LimitExceeded
from symd.service.guard import check_deadline
from symd.service.parts import Parts
from symd.v1.module_service_pb2 import UploadHeader, UploadModuleRequest, UploadModuleResponse
from symd.wire.modules import to_module
from symd.wire.names import checked_digest


def handle(
    parts: Parts, requests: Iterator[UploadModuleRequest], context: grpc.ServicerContext
) -> UploadModuleResponse:
    with parts.slots.taken():
        header = _header(requests, parts.config.limits)
        with parts.engine.receive(header.label) as arriving:
            _receive(requests, header, arriving, parts.config.limits)
            check_deadline(context)
            parts.check_running()
            module = arriving.commit(header.sha256)
    return UploadModuleResponse(module=to_module(module))


def _header(requests: Iterator[UploadModuleRequest], limits: Limits) -> UploadHeader:
    first = next(requests, None)
    if first is None or first.WhichOneof("part") != "header":
        raise InvalidInput("an upload begins with its header", hint="send UploadHeader first")
    checked_digest(first.header.sha256)
    if first.header.size > limits.module_size:
        raise LimitExceeded(
            f"the module has {first.header.size} bytes, at most {limits.module_size} are taken",
            hint="raise module_size where the daemon is started",
            metadata={"limit": "module_size", "value": str(limits.module_size)},
        )
    return first.header


def _receive(
    requests: Iterator[UploadModuleRequest], header: UploadHeader, arriving: Receiving, limits: Limits
) -> None:
    """Take the announced number of bytes. Raises ``HashMismatch`` when fewer or more came."""
    for request in requests:
        chunk = _chunk(request, limits)
        if arriving.size + len(chunk) > header.size:
            raise _mismatch(f"more than the announced {header.size} bytes came")
        arriving.write(chunk)
    if arriving.size != header.size:
        raise _mismatch(f"{arriving.size} of the announced {header.size} bytes came")


def _chunk(request: UploadModuleRequest, limits: Limits) -> bytes:
    if request.WhichOneof("part") != "chunk":
        raise InvalidInput("after the header an upload has chunks only")
    if len(request.chunk) > limits.upload_chunk:
        raise LimitExceeded(
            f"a chunk has {len(request.chunk)} bytes, at most {limits.upload_chunk} are taken",
            hint="send smaller chunks",
            metadata={"limit": "upload_chunk", "value": str(limits.upload_chunk)},
        )
    return request.chunk


def _mismatch(what: str) -> HashMismatch:
    return HashMismatch(what, hint="send the module again")
