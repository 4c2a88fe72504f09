"""Parca's DebuginfoService.MarkUploadFinished: what was uploaded is kept already; whoever asks after nothing is told so."""

from __future__ import annotations

from symd.errors import ModuleNotFound
from symd.server.call import Call
from symd.server.service_context import ServiceContext
from symd.server.uploaded_debug_data import checked_build_id, is_known
from symd.v1.parca_debuginfo_pb2 import MarkUploadFinishedRequest, MarkUploadFinishedResponse


def handle(service: ServiceContext, request: MarkUploadFinishedRequest, call: Call) -> MarkUploadFinishedResponse:
    call.subject = f"build-id/{checked_build_id(request.build_id)}"
    if not is_known(service.engine, request.build_id):
        raise ModuleNotFound("nothing was uploaded under this build ID", where=request.build_id[:200])
    return MarkUploadFinishedResponse()
