"""SymbolService.GetLineTable."""

from __future__ import annotations

from collections.abc import Iterator

import grpc

from symd.service.guard import check_deadline, while_wanted
from symd.service.parts import Parts
from symd.v1.symbol_service_pb2 import GetLineTableRequest, GetLineTableResponse
from symd.wire.line_tables import from_level, to_chunks
from symd.wire.names import module_digest


def handle(parts: Parts, request: GetLineTableRequest, context: grpc.ServicerContext) -> Iterator[GetLineTableResponse]:
    check_deadline(context)
    path = request.object if request.HasField("object") else None
    level = from_level(request.level)
    with parts.slots.taken():
        for table in parts.engine.lines(module_digest(request.name), path, level):
            yield from while_wanted(to_chunks(table), context)
