"""SymbolService.GetLineTable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from symd.model.line_tables import LineLevel, LineTable, RowsInParts
from symd.service.call import Call
from symd.service.guard import while_wanted
from symd.service.semaphores import acquired
from symd.service.service_context import ServiceContext
from symd.v1.symbol_service_pb2 import GetLineTableRequest, GetLineTableResponse
from symd.wire.line_tables import from_request, to_chunks

_ROW_BYTES = 40
"""Of a table's columns together."""


def handle(service: ServiceContext, request: GetLineTableRequest, call: Call) -> Iterator[GetLineTableResponse]:
    digest, path, level = from_request(request)
    is_ptx = level is LineLevel.PTX
    tables: Iterable[RowsInParts] = (
        _ptx(service, digest, path, call) if is_ptx else service.engine.stored_lines(digest, path)
    )
    for table in tables:
        yield from while_wanted(to_chunks(table), call)


def _ptx(service: ServiceContext, digest: str, path: str | None, call: Call) -> list[LineTable]:
    """They are made of the module's bytes, and kept until the client has taken them."""
    with acquired(service.large_answers, call):
        tables = list(service.engine.lines(digest, path, LineLevel.PTX))
    service.flight.keep(call, sum(_ROW_BYTES * len(each) + sum(map(len, each.strings)) for each in tables))
    return tables
