"""Parca's DebuginfoService: debug data by build ID, uploaded in steps. What Pyroscope's has in common with it is here
too: a build ID becomes an alias of the module that was uploaded under it."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator, Sequence

from symd.api import Host
from symd.errors import BadQuery, ModuleNotFound
from symd.formats.debug_ids import ALIAS_KIND, MAX_DIGITS
from symd.model.contexts import Alias
from symd.rpc.wire.fields import wrong_field
from symd.server.answering import method
from symd.server.call import Call
from symd.server.config import Right
from symd.server.guard import check_deadline
from symd.server.messages import module_too_large
from symd.server.service_context import ServiceContext
from symd.server.work_queues import Work
from symd.v1 import parca_debuginfo_pb2 as pb

MAX_NAME = 4096
"""Characters of a build ID; Go's are no hexadecimal digits."""


def checked_build_id(text: str) -> str:
    """The key of its alias: hexadecimal digits in lower case, anything else as it is. Raises BadQuery."""
    if not 0 < len(text) <= MAX_NAME:
        raise BadQuery(f"a build ID has 1 to {MAX_NAME} characters")
    hexadecimal = len(text) <= MAX_DIGITS and not text.lower().strip("0123456789abcdef")
    return text.lower() if hexadecimal else text


def is_known(engine: Host, build_id: str) -> bool:
    """Whether a module that is there was uploaded under this build ID."""
    told = engine.aliases.resolve(ALIAS_KIND, checked_build_id(build_id))
    return told is not None and not engine.missing([told.module])


def received(service: ServiceContext, chunks: Iterable[bytes], build_ids: Sequence[str], call: Call) -> int:
    """Keep the module that ``chunks`` are, once it is whole and was indexed, and let the build IDs, which were checked,
    name it; its size in bytes. Raises what indexing it raises, and ``LimitExceeded`` for one of more than
    ``Limits.module_size`` bytes."""
    largest = service.config.limits.module_size
    digest = hashlib.sha256()
    with service.engine.receive(f"build-id {build_ids[0][:200]}") as arriving:
        for chunk in chunks:
            if arriving.size + len(chunk) > largest:
                raise module_too_large(f"the debug data has more than {largest} bytes", largest)
            digest.update(chunk)
            arriving.write(chunk)
        check_deadline(call)
        service.check_running()
        size = arriving.size
        module = arriving.commit(digest.hexdigest())
    for build_id in build_ids:
        service.engine.aliases.add([Alias(ALIAS_KIND, build_id, module.sha256)])
    return size


@method(Right.WRITE, work=Work.UPLOAD)
def upload(service: ServiceContext, requests: Iterator[pb.UploadRequest], call: Call) -> pb.UploadResponse:
    """Parca's DebuginfoService.Upload: pieces go to the disk as they come; the module is kept once it is whole and
    indexed, and named by its build ID."""
    build_id = _build_id(requests)
    call.subject = f"build-id/{build_id}"
    size = received(service, (_chunk(request) for request in requests), [build_id], call)
    return pb.UploadResponse(build_id=build_id, size=size)


def _chunk(request: pb.UploadRequest) -> bytes:
    if request.WhichOneof("data") != "chunk_data":
        raise wrong_field("chunk_data", "after its info an upload has chunk_data only")
    return request.chunk_data


def _build_id(requests: Iterator[pb.UploadRequest]) -> str:
    first = next(requests, None)
    if first is None or first.WhichOneof("data") != "info":
        raise wrong_field("info", "an upload begins with its info", "send UploadInfo first")
    return checked_build_id(first.info.build_id)


@method(Right.READ)
def should_initiate_upload(
    service: ServiceContext, request: pb.ShouldInitiateUploadRequest, _call: Call
) -> pb.ShouldInitiateUploadResponse:
    """Parca's DebuginfoService.ShouldInitiateUpload: whether the daemon lacks a build ID."""
    if request.type in (pb.DEBUGINFO_TYPE_SOURCES, pb.DEBUGINFO_TYPE_SOURCE_MAP):
        return pb.ShouldInitiateUploadResponse(should_initiate_upload=False, reason="files of this type are not kept")
    known = is_known(service.engine, request.build_id)
    wanted = not known or request.force
    reason = (
        "it is wanted in any case" if known and wanted else "it is there already" if known else "it is not there yet"
    )
    return pb.ShouldInitiateUploadResponse(should_initiate_upload=wanted, reason=reason)


@method(Right.WRITE)
def initiate_upload(
    service: ServiceContext, request: pb.InitiateUploadRequest, call: Call
) -> pb.InitiateUploadResponse:
    """Parca's DebuginfoService.InitiateUpload: by which way to upload, which is always the method Upload."""
    call.subject = f"build-id/{checked_build_id(request.build_id)}"
    largest = service.config.limits.module_size
    if request.size > largest:
        raise module_too_large(f"the debug data has {request.size} bytes, at most {largest} are taken", largest)
    instructions = pb.UploadInstructions(
        build_id=request.build_id,
        upload_id=secrets.token_hex(16),
        upload_strategy=pb.UploadInstructions.UPLOAD_STRATEGY_GRPC,
        type=request.type,
    )
    return pb.InitiateUploadResponse(upload_instructions=instructions)


@method(Right.WRITE)
def mark_upload_finished(
    service: ServiceContext, request: pb.MarkUploadFinishedRequest, call: Call
) -> pb.MarkUploadFinishedResponse:
    """Parca's DebuginfoService.MarkUploadFinished: what was uploaded is kept already; whoever asks after nothing is
    told so."""
    call.subject = f"build-id/{checked_build_id(request.build_id)}"
    if not is_known(service.engine, request.build_id):
        raise ModuleNotFound("nothing was uploaded under this build ID", where=request.build_id[:200])
    return pb.MarkUploadFinishedResponse()
