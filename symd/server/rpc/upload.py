"""Parca's DebuginfoService.Upload: pieces go to the disk as they come; the module is kept once it is whole and indexed, and named by its build ID."""

from __future__ import annotations

from collections.abc import Iterator

from symd.rpc.wire.fields import wrong_field
from symd.server.call import Call
from symd.server.lanes import Work
from symd.server.service_context import ServiceContext
from symd.server.uploaded_debug_data import checked_build_id, received
from symd.v1.parca_debuginfo_pb2 import UploadRequest, UploadResponse

WORK = Work.UPLOAD


def handle(service: ServiceContext, requests: Iterator[UploadRequest], call: Call) -> UploadResponse:
    build_id = _build_id(requests)
    call.subject = f"build-id/{build_id}"
    size = received(service, (_chunk(request) for request in requests), [build_id], call)
    return UploadResponse(build_id=build_id, size=size)


def _chunk(request: UploadRequest) -> bytes:
    if request.WhichOneof("data") != "chunk_data":
        raise wrong_field("chunk_data", "after its info an upload has chunk_data only")
    return request.chunk_data


def _build_id(requests: Iterator[UploadRequest]) -> str:
    first = next(requests, None)
    if first is None or first.WhichOneof("data") != "info":
        raise wrong_field("info", "an upload begins with its info", "send UploadInfo first")
    return checked_build_id(first.info.build_id)
