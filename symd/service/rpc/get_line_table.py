"""SymbolService.GetLineTable."""

from __future__ import annotations

from collections.abc import Iterator

from symd.service.call import Call
from symd.service.guard import while_wanted
from symd.service.service_context import ServiceContext
from symd.v1.symbol_service_pb2 import GetLineTableRequest, GetLineTableResponse
from symd.wire.line_tables import from_request, to_chunks


def handle(service: ServiceContext, request: GetLineTableRequest, call: Call) -> Iterator[GetLineTableResponse]:
    digest, path, level = from_request(request)
    for table in service.engine.lines(digest, path, level):
        yield from while_wanted(to_chunks(table), call)
