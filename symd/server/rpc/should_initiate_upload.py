"""Parca's DebuginfoService.ShouldInitiateUpload: whether the daemon lacks a build ID."""

from __future__ import annotations

from symd.server.call import Call
from symd.server.service_context import ServiceContext
from symd.server.uploaded_debug_data import is_known
from symd.v1.parca_debuginfo_pb2 import (
    DEBUGINFO_TYPE_SOURCE_MAP,
    DEBUGINFO_TYPE_SOURCES,
    ShouldInitiateUploadRequest,
    ShouldInitiateUploadResponse,
)


def handle(service: ServiceContext, request: ShouldInitiateUploadRequest, _call: Call) -> ShouldInitiateUploadResponse:
    if request.type in (DEBUGINFO_TYPE_SOURCES, DEBUGINFO_TYPE_SOURCE_MAP):
        return ShouldInitiateUploadResponse(should_initiate_upload=False, reason="files of this type are not kept")
    known = is_known(service.engine, request.build_id)
    wanted = not known or request.force
    reason = (
        "it is wanted in any case" if known and wanted else "it is there already" if known else "it is not there yet"
    )
    return ShouldInitiateUploadResponse(should_initiate_upload=wanted, reason=reason)
