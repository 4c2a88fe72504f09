"""Parca's DebuginfoService.Upload: pieces go to the disk as they come; the module is kept once it is whole and indexed, and named by its build ID."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from symd.errors import LimitExceeded
from symd.service.call import Call
from symd.service.guard import check_deadline
from symd.service.lanes import Work
from symd.service.service_context import ServiceContext
from symd.service.uploaded_debug_data import checked_build_id, tell
from symd.v1.parca_debuginfo_pb2 import UploadRequest, UploadResponse
from symd.wire.fields import wrong_field

WORK = Work.UPLOAD


def handle(service: ServiceContext, requests: Iterator[UploadRequest], call: Call) -> UploadResponse:
    build_id = _build_id(requests)
    call.subject = f"build-id/{build_id}"
    largest = service.config.limits.module_size
    digest = hashlib.sha256()
    with service.engine.receive(f"build-id {build_id[:200]}") as arriving:
        for request in requests:
            if request.WhichOneof("data") != "chunk_data":
                raise wrong_field("chunk_data", "after its info an upload has chunk_data only")
            if arriving.size + len(request.chunk_data) > largest:
                raise LimitExceeded(
                    f"the debug data has more than {largest} bytes",
                    hint="raise module_size where the daemon is started",
                    metadata={"limit": "module_size", "value": str(largest)},
                )
            digest.update(request.chunk_data)
            arriving.write(request.chunk_data)
        check_deadline(call)
        service.check_running()
        size = arriving.size
        module = arriving.commit(digest.hexdigest())
    tell(service.engine, build_id, module.sha256)
    return UploadResponse(build_id=build_id, size=size)


def _build_id(requests: Iterator[UploadRequest]) -> str:
    first = next(requests, None)
    if first is None or first.WhichOneof("data") != "info":
        raise wrong_field("info", "an upload begins with its info", "send UploadInfo first")
    return checked_build_id(first.info.build_id)
