"""ModuleService.ReadObject."""

from __future__ import annotations

from collections.abc import Iterator

import grpc

from symd.service.guard import while_wanted
from symd.service.parts import Parts
from symd.v1.module_service_pb2 import ReadObjectRequest, ReadObjectResponse
from symd.wire.names import module_digest
from symd.wire.pieces import pieces


def handle(parts: Parts, request: ReadObjectRequest, context: grpc.ServicerContext) -> Iterator[ReadObjectResponse]:
    with parts.slots.taken():
        data = parts.engine.object_data(module_digest(request.name), request.object)
        for piece in while_wanted(pieces(data, parts.config.limits.upload_chunk), context):
            yield ReadObjectResponse(chunk=piece)
