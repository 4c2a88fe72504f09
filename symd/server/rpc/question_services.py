"""Questions about modules: addresses and line tables (SymbolService), names (NameService), variables (VariableService),
listings and texts of sources (ListingService), and GPU core dumps (CoreService)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from symd.config import Limits
from symd.errors import SymdError
from symd.model.cores import CoreDump
from symd.model.line_tables import CodePart, LineLevel, LineTable, Listing, RowsInParts
from symd.model.texts import utf8_size
from symd.model.waiting import waited_for
from symd.rpc.wire import cores, line_tables, listings, modules, variables
from symd.rpc.wire.failures import to_status
from symd.server.answering import method
from symd.server.batches import ResponseSizeLimit, answer, check_columns, reply_from_index_file, reply_from_open_index
from symd.server.call import Call
from symd.server.config import Right
from symd.server.guard import check_waited_for, while_waited_for
from symd.server.messages import COUNTED_BYTES
from symd.server.paging import slice_page
from symd.server.service_context import DiskSources, ServiceContext
from symd.server.work_queues import Work
from symd.v1.core_service_pb2 import ReadCoreRequest, ReadCoreResponse
from symd.v1.listing_service_pb2 import GetListingRequest, GetListingResponse, ReadSourcesRequest, ReadSourcesResponse
from symd.v1.name_service_pb2 import FindNamesRequest, FindNamesResponse
from symd.v1.symbol_service_pb2 import (
    GetLineTableRequest,
    GetLineTableResponse,
    SymbolizeRequest,
    SymbolizeResponse,
    SymbolizeStreamRequest,
    SymbolizeStreamResponse,
)
from symd.v1.variable_service_pb2 import GetVariablesRequest, GetVariablesResponse


@method(Right.READ, inline=reply_from_open_index, cache_miss=reply_from_index_file)
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


@method(Right.READ, failed=_failed_batch)
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


@method(Right.READ)
def get_line_table(service: ServiceContext, request: GetLineTableRequest, call: Call) -> Iterator[GetLineTableResponse]:
    """Stream the line tables of a module: those of its source, or of the PTX that it was compiled through."""
    digest, path, level, within = line_tables.from_request(request)
    if level is LineLevel.PTX:
        chunks = _table_chunks(_ptx(service, digest, path, within, call))
    else:
        work = Work.BATCH if service.engine.is_open(digest) else Work.CACHE_MISS
        stored = partial(service.engine.stored_lines, digest, path, within)
        chunks = _table_chunks(service.work_queues[work].run_for(call, stored))
    yield from service.work_queues[Work.BATCH].each_for(call, chunks)


def _table_chunks(tables: Iterable[RowsInParts]) -> Iterator[GetLineTableResponse]:
    for table in tables:
        yield from line_tables.to_chunks(table)


def _ptx(
    service: ServiceContext, digest: str, path: str | None, within: CodePart | None, call: Call
) -> list[LineTable]:
    """Line tables of PTX, which are made of the module's bytes, and kept until the client has taken them."""
    made = partial(service.engine.lines, digest, path, LineLevel.PTX, within)
    tables = service.work_queues[Work.LARGE].run_for(call, lambda: [*made()])
    service.flight.keep(call, sum(_ROW_BYTES * len(each) + sum(map(utf8_size, each.strings)) for each in tables))
    return tables


@method(Right.READ)
def find_names(service: ServiceContext, request: FindNamesRequest, call: Call) -> FindNamesResponse:
    """Find kernels, functions and source files by name, page by page."""
    digest, wanted, path = modules.from_names_request(request)
    with while_waited_for(call, service.config.limits):
        found = service.engine.names(digest, wanted, path)
    of = f"{digest}/names/{path}/{wanted.match:d}/{sorted(wanted.kinds)}/{wanted.pattern}"
    items, token = slice_page(found, of, request.page_size, request.page_token, modules.to_named_item)
    return FindNamesResponse(items=items, next_page_token=token)


AT_ONCE = 16
"""Addresses whose variables are read together: as many as a stack has, and not so many that they fill the memory."""


@method(Right.READ)
def get_variables(service: ServiceContext, request: GetVariablesRequest, call: Call) -> GetVariablesResponse:
    """Give what is in scope at each of the addresses, with types and locations."""
    digest, queries, path = variables.from_request(request)
    room, response = ResponseSizeLimit(service.config.limits), GetVariablesResponse()
    for start in range(0, len(queries), AT_ONCE):
        check_waited_for(call)
        part = queries[start : start + AT_ONCE]
        for found in service.engine.variables(digest, part, path, with_ranges=request.with_ranges):
            room.taken_by(found.at)
            room.take_device_candidates(found.device_candidates)
            place = variables.to_place(found)
            room.take_variables(place.ByteSize())
            response.places.append(place)
    return response


Chunk = TypeVar("Chunk", GetListingResponse, ReadSourcesResponse)


@method(Right.READ)
def get_listing(service: ServiceContext, request: GetListingRequest, call: Call) -> Iterator[GetListingResponse]:
    """Stream the instructions of a module's code, each with the frames that it comes from."""
    found = service.work_queues[Work.LARGE].run_for(call, partial(_made, service, request, call))
    service.flight.keep(call, sum(listings.size_of(each) for each in found))
    for listing in found:
        yield from _in_turn(service, call, listings.size_of(listing), listings.to_chunks(listing))


def _made(service: ServiceContext, request: GetListingRequest, call: Call) -> list[Listing]:
    with waited_for(partial(check_waited_for, call)):
        found = [*service.engine.listing(*listings.from_request(request))]
    for listing in found:
        check_columns(listing.answers, service.config.limits)
    return found


@method(Right.READ)
def read_sources(service: ServiceContext, request: ReadSourcesRequest, call: Call) -> Iterator[ReadSourcesResponse]:
    """What the module carries, and the files that this daemon was allowed to read."""
    digest, files, path = listings.from_sources_request(request)
    on_disk = DiskSources(service.config)
    texts = service.work_queues[Work.LARGE].run_for(call, partial(service.engine.sources, digest, files, path))
    service.flight.keep(call, sum(utf8_size(each.text) for each in texts))
    for source in texts:
        found = on_disk.completed(source)
        size = utf8_size(found.text)
        from_disk = 0 if found is source else size
        with service.flight.holding(call.client, from_disk):
            yield from _in_turn(service, call, size, listings.to_source_chunks(found))


def _in_turn(service: ServiceContext, call: Call, size: int, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """The chunks of something that takes about ``size`` bytes: where that is much, each is made in its turn. To wait
    for a turn takes longer than to make a small one."""
    return chunks if size < COUNTED_BYTES else service.work_queues[Work.BATCH].each_for(call, chunks)


@method(Right.READ)
def read_core(service: ServiceContext, request: ReadCoreRequest, call: Call) -> Iterator[ReadCoreResponse]:
    """Stream what every warp or wave of a GPU core dump was doing: the dump first, then each stack."""
    asked = cores.from_request(request)
    dump = service.work_queues[Work.LARGE].run_for(call, lambda: _read_dump(service, *asked))
    service.flight.keep(call, cores.size_of(dump))
    yield from service.work_queues[Work.BATCH].each_for(call, cores.to_parts(dump))


def _read_dump(service: ServiceContext, digest: str, modules: Sequence[str]) -> CoreDump:
    dump = service.engine.core(digest, modules)
    _check_stacks(dump, service.config.limits)
    return dump


def _check_stacks(dump: CoreDump, limits: Limits) -> None:
    """Raises ``LimitExceeded`` where a stack has no room in a message: its calls may all be of functions with long
    names."""
    for stack in dump.stacks:
        room = ResponseSizeLimit(limits)
        for call in stack.frames:
            room.take_frames(call.frames)
