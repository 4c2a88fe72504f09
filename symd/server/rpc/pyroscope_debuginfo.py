"""Pyroscope's DebuginfoService: debug data by build ID, uploaded in one stream."""

from __future__ import annotations

from collections.abc import Iterator

from symd.rpc.wire.fields import wrong_field
from symd.server.answering import method
from symd.server.call import Call
from symd.server.config import Right
from symd.server.rpc.parca_debuginfo import checked_build_id, is_known, received
from symd.server.service_context import ServiceContext
from symd.server.work_queues import Work
from symd.v1.pyroscope_debuginfo_pb2 import ShouldInitiateUploadResponse, UploadRequest, UploadResponse


@method(Right.WRITE, work=Work.UPLOAD)
def upload(service: ServiceContext, requests: Iterator[UploadRequest], call: Call) -> Iterator[UploadResponse]:
    """Pyroscope's DebuginfoService.Upload: what the client has, whether it is wanted, and then its bytes, in one
    stream."""
    names = _names(requests)
    call.subject = f"build-id/{names[0]}"
    wanted = not is_known(service.engine, names[0])
    reason = "it is not there yet" if wanted else "it is there already"
    yield UploadResponse(init=ShouldInitiateUploadResponse(should_initiate_upload=wanted, reason=reason))
    if wanted:
        received(service, (_chunk(request) for request in requests), names, call)


def _names(requests: Iterator[UploadRequest]) -> list[str]:
    """The file's identifiers, the ELF note's first."""
    first = next(requests, None)
    if first is None or first.WhichOneof("data") != "init":
        raise wrong_field("init", "an upload begins with its init", "send ShouldInitiateUploadRequest first")
    file = first.init.file
    names = [checked_build_id(each) for each in (file.gnu, file.golang, file.open_telemetry) if each]
    if not names:
        raise wrong_field("init.file", "the file has no identifier", "give its build ID")
    return list(dict.fromkeys(names))


def _chunk(request: UploadRequest) -> bytes:
    if request.WhichOneof("data") != "chunk":
        raise wrong_field("chunk", "after its init an upload has chunks only")
    return request.chunk.chunk
