"""The services that answer questions and change nothing: addresses and line tables (SymbolService), names
(NameService), variables (VariableService), listings and texts of sources (ListingService), GPU core dumps
(CoreService), where a breakpoint can go, now and in modules that come later (BreakpointService), and what this daemon
is, what it can and what it takes (ServerService)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, TypeVar

from symd import __version__
from symd.capture.drivers.simulate import SIMULATED_PRODUCTS
from symd.config import Limits
from symd.errors import InvalidInput, SymdError
from symd.formats.containers import FORMATS
from symd.index import VERSION
from symd.model.breakpoints import Breakpoint
from symd.model.cancellation import cancelled_by
from symd.model.cores import CoreDump
from symd.model.line_tables import CodePart, LineLevel, LineTable, Listing, RowsInParts
from symd.model.texts import in_utf8, utf8_size
from symd.model.watches import BreakpointChange, ChangeAcknowledged
from symd.rpc.wire import cores, line_tables, modules, variables
from symd.rpc.wire.breakpoints import (
    check_is_change,
    from_change,
    from_resolve_request,
    from_start,
    size_of,
    to_location,
    to_refusal,
    to_responses,
)
from symd.rpc.wire.failures import to_status
from symd.rpc.wire.fields import module_name, to_duration
from symd.rpc.wire.grabs import APIS
from symd.server.answering import RequestIterator, method
from symd.server.batches import (
    ResponseSizeLimit,
    check_columns,
    reply_from_index_file,
    reply_from_open_index,
    symbolize_into,
)
from symd.server.call import Call
from symd.server.config import Right
from symd.server.guard import cancelled_with_call, check_call_active
from symd.server.messages import COUNTED_BYTES, MAX_REQUEST, TakenOnce
from symd.server.paging import MAX_PAGE_SIZE, slice_page
from symd.server.rpc.module_service import UPLOAD_CHUNK
from symd.server.service_context import DiskSources, ServiceContext
from symd.server.work_queues import Work
from symd.v1 import server_service_pb2 as pb
from symd.v1.breakpoint_service_pb2 import ResolveBreakpointRequest, ResolveBreakpointResponse, WatchResponse
from symd.v1.core_service_pb2 import ReadCoreRequest, ReadCoreResponse
from symd.v1.listing_service_pb2 import GetListingRequest, GetListingResponse, ReadSourcesRequest, ReadSourcesResponse
from symd.v1.name_service_pb2 import FindNamesRequest, FindNamesResponse
from symd.v1.server_service_pb2 import DisassemblerInfo, GetServerInfoRequest, GetServerInfoResponse, ServerInfo
from symd.v1.symbol_service_pb2 import (
    GetLineTableRequest,
    GetLineTableResponse,
    SymbolizeRequest,
    SymbolizeResponse,
    SymbolizeStreamRequest,
    SymbolizeStreamResponse,
)
from symd.v1.variable_service_pb2 import GetVariablesRequest, GetVariablesResponse


@method(Right.READ, inline=reply_from_open_index, cold=reply_from_index_file)
def symbolize(service: ServiceContext, request: SymbolizeRequest, call: Call) -> SymbolizeResponse:
    """One address or a batch."""
    response, asked = SymbolizeResponse(), TakenOnce(request)
    del request
    symbolize_into(response, service, asked, call)
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
    response, asked = SymbolizeStreamResponse(id=request.id), TakenOnce(request.request)
    del request
    try:
        response.response.SetInParent()
        symbolize_into(response.response, service, asked, call)
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
        work = Work.BATCH if service.engine.is_open(digest) else Work.COLD_QUESTION
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
    with cancelled_with_call(call, service.config.limits):
        found = service.engine.names(digest, wanted, path)
    token_scope = f"{digest}/names/{path}/{wanted.match:d}/{sorted(wanted.kinds)}/{wanted.pattern}"
    items, token = slice_page(found, token_scope, request.page_size, request.page_token, modules.to_named_item)
    return FindNamesResponse(items=items, next_page_token=token)


PLACES_READ_TOGETHER = 16
"""Addresses whose variables are read together: as many as a stack has, and not so many that they fill the memory."""


@method(Right.READ)
def get_variables(service: ServiceContext, request: GetVariablesRequest, call: Call) -> GetVariablesResponse:
    """Give what is in scope at each of the addresses, with types and locations."""
    digest, queries, path = variables.from_request(request)
    budget, response = ResponseSizeLimit(service.config.limits), GetVariablesResponse()
    for start in range(0, len(queries), PLACES_READ_TOGETHER):
        check_call_active(call)
        part = queries[start : start + PLACES_READ_TOGETHER]
        for found in service.engine.variables(digest, part, path, with_ranges=request.with_ranges):
            budget.count_answer(found.at)
            budget.count_device_candidates(found.device_candidates)
            place = variables.to_place(found)
            budget.count_variables(place.ByteSize())
            response.places.append(place)
    return response


Chunk = TypeVar("Chunk", GetListingResponse, ReadSourcesResponse)


@method(Right.READ)
def get_listing(service: ServiceContext, request: GetListingRequest, call: Call) -> Iterator[GetListingResponse]:
    """Stream the instructions of a module's code, each with the frames that it comes from."""
    found = service.work_queues[Work.LARGE].run_for(call, partial(_listings, service, request, call))
    service.flight.keep(call, sum(line_tables.listing_bytes(each) for each in found))
    for listing in found:
        yield from _in_turn(service, call, line_tables.listing_bytes(listing), line_tables.to_listing_chunks(listing))


def _listings(service: ServiceContext, request: GetListingRequest, call: Call) -> list[Listing]:
    with cancelled_by(partial(check_call_active, call)):
        found = [*service.engine.listing(*line_tables.from_listing_request(request))]
    for listing in found:
        check_columns(listing.answers, service.config.limits)
    return found


@method(Right.READ)
def read_sources(service: ServiceContext, request: ReadSourcesRequest, call: Call) -> Iterator[ReadSourcesResponse]:
    """What the module carries, and the files that this daemon was allowed to read."""
    digest, files, path = line_tables.from_sources_request(request)
    on_disk = DiskSources(service.config)
    texts = service.work_queues[Work.LARGE].run_for(call, partial(service.engine.sources, digest, files, path))
    service.flight.keep(call, sum(utf8_size(each.text) for each in texts))
    for source in texts:
        found = on_disk.completed(source)
        size = utf8_size(found.text)
        from_disk = 0 if found is source else size
        with service.flight.holding(call.client, from_disk):
            yield from _in_turn(service, call, size, line_tables.to_source_chunks(found))


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
        budget = ResponseSizeLimit(limits)
        for call in stack.frames:
            budget.count_frames(call.frames)


@method(Right.READ)
def resolve_breakpoint(
    service: ServiceContext, request: ResolveBreakpointRequest, call: Call
) -> ResolveBreakpointResponse:
    """Answer where a breakpoint can go in one module, page by page, or why it cannot."""
    digest, asked, context = from_resolve_request(request)
    with cancelled_with_call(call, service.config.limits):
        located = service.engine.locate(
            digest,
            asked.where,
            asked.path,
            every_address=asked.every_address,
            rules=asked.rules,
            targets=asked.targets,
            context=context,
        )
    options = sha256(repr((asked, context)).encode()).hexdigest()  # 100 rules make a long text
    token_scope = f"{digest}/breakpoints/{options}"
    page, token = slice_page(located.locations, token_scope, request.page_size, request.page_token, to_location)
    module = None if located.module is None else module_name(located.module)
    return ResolveBreakpointResponse(locations=page, refusal=to_refusal(located), next_page_token=token, module=module)


@method(Right.READ, work=Work.WATCH)
def watch(service: ServiceContext, requests: RequestIterator, call: Call) -> Iterator[WatchResponse]:
    """A thread that sleeps until something happens, the client changes its breakpoints, or the call ends."""
    start = from_start(_first_message(requests))
    uncounted = keep_breakpoints(service, call, start.breakpoints)

    def next_change() -> BreakpointChange | None:
        nonlocal uncounted
        message = requests.poll()
        if message is None:
            return None
        check_is_change(message)
        try:
            change = from_change(message)
            uncounted = keep_breakpoints(service, call, change.add, uncounted)
        except SymdError as error:
            change = BreakpointChange(failure=error)
        return change

    with (
        service.engine.watch(
            start.breakpoints,
            contexts=start.contexts,
            apis=start.apis,
            only_new=start.only_new,
            resume_token=start.resume_token,
            changes=partial(iter, next_change, None),
        ) as watching,
        service.watches.opened(call.client, watching.close),
    ):
        if not call.add_callback(watching.close):
            return  # it has ended already
        service.check_running()
        acknowledged = 0
        with requests.notifying(watching.wake):
            for event in watching:
                if isinstance(event, ChangeAcknowledged):
                    acknowledged += 1
                yield from to_responses(event, acknowledged)
        service.check_running()


def _first_message(requests: RequestIterator) -> Any:
    """What a watch begins with. Raises ``InvalidInput`` where nothing comes."""
    first = next(requests, None)
    if first is None:
        raise InvalidInput("the watch has no message", hint="send start, and close your side after it or later")
    return first


def keep_breakpoints(service: ServiceContext, call: Call, breakpoints: Iterable[Breakpoint], uncounted: int = 0) -> int:
    """Count what breakpoints take, and ``uncounted`` bytes before, among those that the daemon holds for the client
    until the watch ends; the bytes that are still too few to be counted. Raises ``Busy``."""
    size = uncounted + sum(map(size_of, breakpoints))
    if size < COUNTED_BYTES:
        return size
    service.flight.keep(call, size)
    return 0


_SECONDS = "_seconds"
"""How the names of limits of time end."""


def to_limits(limits: Limits, further: Mapping[str, int]) -> list[pb.Limit]:
    """Every limit of ``limits``, then the ``further`` ones, by the names that errors give them."""
    return [_to_limit(name, value) for name, value in {**limits._asdict(), **further}.items()]


def _to_limit(name: str, value: float) -> pb.Limit:
    if not name.endswith(_SECONDS):
        return pb.Limit(name=name, amount=int(value))
    return pb.Limit(name=name, duration=to_duration(value))


@method(Right.READ)
def get_server_info(service: ServiceContext, _request: GetServerInfoRequest, call: Call) -> GetServerInfoResponse:
    """Tell what this daemon is, what it can do, and the limits that it was started with."""
    config, limits = service.config, service.config.limits
    info = ServerInfo(
        version=__version__,
        index_version=VERSION,
        services=service.services,
        formats=[reader.NAME for reader in FORMATS],
        apis=APIS.values(),
        drivers=sorted(config.drivers),
        simulated_products=SIMULATED_PRODUCTS,
        disassemblers=[DisassemblerInfo(name=name, installed=here) for name, here in service.disassemblers.items()],
        reads_source_files=bool(config.source_roots),
        max_module_bytes=limits.module_size,
        max_chunk_bytes=UPLOAD_CHUNK,
        max_request_bytes=MAX_REQUEST,
        max_batch=limits.batch,
        max_streams=config.streams,
        max_watches=service.watches.most_of_client,
        max_page_size=MAX_PAGE_SIZE,
        limits=to_limits(
            limits,
            {
                "streams": config.streams,
                "watches": config.watches,
                "client_watches": service.watches.most_of_client,
            },
        ),
        store=in_utf8(config.objects or str(config.store.absolute())) if call.is_owner else "",
    )
    return GetServerInfoResponse(info=info)
