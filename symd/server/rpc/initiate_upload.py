"""Parca's DebuginfoService.InitiateUpload: by which way to upload, which is always the method Upload."""

from __future__ import annotations

import secrets

from symd.server.call import Call
from symd.server.messages import module_too_large
from symd.server.service_context import ServiceContext
from symd.server.uploaded_debug_data import checked_build_id
from symd.v1.parca_debuginfo_pb2 import InitiateUploadRequest, InitiateUploadResponse, UploadInstructions


def handle(service: ServiceContext, request: InitiateUploadRequest, call: Call) -> InitiateUploadResponse:
    call.subject = f"build-id/{checked_build_id(request.build_id)}"
    largest = service.config.limits.module_size
    if request.size > largest:
        raise module_too_large(f"the debug data has {request.size} bytes, at most {largest} are taken", largest)
    instructions = UploadInstructions(
        build_id=request.build_id,
        upload_id=secrets.token_hex(16),
        upload_strategy=UploadInstructions.UPLOAD_STRATEGY_GRPC,
        type=request.type,
    )
    return InitiateUploadResponse(upload_instructions=instructions)
