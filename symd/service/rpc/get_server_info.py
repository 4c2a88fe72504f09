"""ServerService.GetServerInfo."""

from __future__ import annotations

import grpc

from symd import __version__
from symd.service.paging import MAX_SIZE
from symd.service.parts import MAX_REQUEST, Parts
from symd.v1.server_service_pb2 import GetServerInfoRequest, GetServerInfoResponse, ServerInfo


def handle(parts: Parts, _request: GetServerInfoRequest, _context: grpc.ServicerContext) -> GetServerInfoResponse:
    limits = parts.config.limits
    info = ServerInfo(
        version=__version__,
        max_module_bytes=limits.module_size,
        max_chunk_bytes=limits.upload_chunk,
        max_request_bytes=MAX_REQUEST,
        max_batch=limits.batch,
        max_streams=parts.slots.count,
        max_page_size=MAX_SIZE,
    )
    return GetServerInfoResponse(info=info)
