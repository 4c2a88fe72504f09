"""SymbolService: addresses and line tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from symd.errors import SymdError
from symd.model.line_tables import CodePart, LineLevel, LineTable, RowsInParts
from symd.model.texts import utf8_size
from symd.rpc.wire.failures import to_status
from symd.rpc.wire.line_tables import from_request, to_chunks
from symd.server.answering import method
from symd.server.batches import answer, reply_from_index_file, reply_from_open_index
from symd.server.call import Call
from symd.server.service_context import ServiceContext
from symd.server.work_queues import Work
from symd.v1.symbol_service_pb2 import (
    GetLineTableRequest,
    GetLineTableResponse,
    SymbolizeRequest,
    SymbolizeResponse,
    SymbolizeStreamRequest,
    SymbolizeStreamResponse,
)


@method(inline=reply_from_open_index, cache_miss=reply_from_index_file)
def symbolize(service: ServiceContext, request: SymbolizeRequest, call: Call) -> SymbolizeResponse:
    """One address or a batch."""
    response, asked = SymbolizeResponse(), [request]
    del request
    answer(service, asked, response, call)
    return response


def _failed_batch(request: SymbolizeStreamRequest, error: SymdError) -> SymbolizeStreamResponse:
    return _failed(request.id, error)


def _failed(number: int, error: SymdError) -> SymbolizeStreamResponse:
    response = SymbolizeStreamResponse(id=number)
    response.failure.CopyFrom(to_status(error))
    return response


@method(failed=_failed_batch)
def symbolize_stream(service: ServiceContext, request: SymbolizeStreamRequest, call: Call) -> SymbolizeStreamResponse:
    """Batch in, answer out; a batch that cannot be served does not end the stream."""
    response, asked = SymbolizeStreamResponse(id=request.id), [request.request]
    del request
    try:
        response.response.SetInParent()
        answer(service, asked, response.response, call)
    except SymdError as error:
        return _failed(response.id, error)
    return response


_ROW_BYTES = 40
"""Bytes of a row in all columns of a table."""


def get_line_table(service: ServiceContext, request: GetLineTableRequest, call: Call) -> Iterator[GetLineTableResponse]:
    digest, path, level, within = from_request(request)
    if level is LineLevel.PTX:
        chunks = _chunks(_ptx(service, digest, path, within, call))
    else:
        work = Work.BATCH if service.engine.is_open(digest) else Work.CACHE_MISS
        stored = partial(service.engine.stored_lines, digest, path, within)
        chunks = _chunks(service.work_queues[work].run_for(call, stored))
    yield from service.work_queues[Work.BATCH].each_for(call, chunks)


def _chunks(tables: Iterable[RowsInParts]) -> Iterator[GetLineTableResponse]:
    for table in tables:
        yield from to_chunks(table)


def _ptx(
    service: ServiceContext, digest: str, path: str | None, within: CodePart | None, call: Call
) -> list[LineTable]:
    """Line tables of PTX, which are made of the module's bytes, and kept until the client has taken them."""
    made = partial(service.engine.lines, digest, path, LineLevel.PTX, within)
    tables = service.work_queues[Work.LARGE].run_for(call, lambda: [*made()])
    service.flight.keep(call, sum(_ROW_BYTES * len(each) + sum(map(utf8_size, each.strings)) for each in tables))
    return tables
