"""ListingService: source beside instructions, and texts of sources."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TypeVar

from symd.model.line_tables import Listing
from symd.model.texts import utf8_size
from symd.model.waiting import waited_for
from symd.rpc.wire.listings import from_request, size_of, to_chunks
from symd.rpc.wire.sources import from_request as from_sources_request
from symd.rpc.wire.sources import to_chunks as to_source_chunks
from symd.server.batches import check_columns
from symd.server.call import Call
from symd.server.guard import check_waited_for
from symd.server.messages import COUNTED_BYTES
from symd.server.service_context import DiskSources, ServiceContext
from symd.server.work_queues import Work
from symd.v1.listing_service_pb2 import GetListingRequest, GetListingResponse, ReadSourcesRequest, ReadSourcesResponse

Chunk = TypeVar("Chunk", GetListingResponse, ReadSourcesResponse)


def get_listing(service: ServiceContext, request: GetListingRequest, call: Call) -> Iterator[GetListingResponse]:
    listings = service.work_queues[Work.LARGE].run_for(call, partial(_made, service, request, call))
    service.flight.keep(call, sum(size_of(each) for each in listings))
    for listing in listings:
        yield from _in_turn(service, call, size_of(listing), to_chunks(listing))


def _made(service: ServiceContext, request: GetListingRequest, call: Call) -> list[Listing]:
    with waited_for(partial(check_waited_for, call)):
        listings = [*service.engine.listing(*from_request(request))]
    for listing in listings:
        check_columns(listing.answers, service.config.limits)
    return listings


def read_sources(service: ServiceContext, request: ReadSourcesRequest, call: Call) -> Iterator[ReadSourcesResponse]:
    """What the module carries, and the files that this daemon was allowed to read."""
    digest, files, path = from_sources_request(request)
    on_disk = DiskSources(service.config)
    sources = service.work_queues[Work.LARGE].run_for(call, partial(service.engine.sources, digest, files, path))
    service.flight.keep(call, sum(utf8_size(each.text) for each in sources))
    for source in sources:
        found = on_disk.completed(source)
        size = utf8_size(found.text)
        from_disk = 0 if found is source else size
        with service.flight.holding(call.client, from_disk):
            yield from _in_turn(service, call, size, to_source_chunks(found))


def _in_turn(service: ServiceContext, call: Call, size: int, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """The chunks of something that takes about ``size`` bytes: where that is much, each is made in its turn. To wait
    for a turn takes longer than to make a small one."""
    return chunks if size < COUNTED_BYTES else service.work_queues[Work.BATCH].each_for(call, chunks)
