"""ModuleService.UploadModule: chunks are gathered and hashed; the engine sees only a whole, announced module."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from io import BytesIO

import grpc

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
        data = _received(requests, header, parts.config.limits)
        check_deadline(context)
        parts.check_running()
        module = parts.engine.add(data, header.label)
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


def _received(requests: Iterator[UploadModuleRequest], header: UploadHeader, limits: Limits) -> bytes:
    """The announced bytes. Raises ``HashMismatch`` when others came, or fewer, or more."""
    buffer, digest = BytesIO(), hashlib.sha256()
    for request in requests:
        chunk = _chunk(request, limits)
        if buffer.tell() + len(chunk) > header.size:
            raise _mismatch(f"more than the announced {header.size} bytes came")
        buffer.write(chunk)
        digest.update(chunk)
    if buffer.tell() != header.size:
        raise _mismatch(f"{buffer.tell()} of the announced {header.size} bytes came")
    if digest.hexdigest() != header.sha256:
        raise _mismatch(f"the bytes have SHA-256 {digest.hexdigest()}, announced was {header.sha256}")
    return buffer.getvalue()


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
