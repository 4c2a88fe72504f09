"""ListingService.GetListing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from symd.model.listings import Listing
from symd.rpc.wire.listings import from_request, size_of, to_chunks
from symd.server.batches import check_columns
from symd.server.call import Call
from symd.server.guard import check_waited_for
from symd.server.lanes import Work
from symd.server.service_context import ServiceContext
from symd.v1.listing_service_pb2 import GetListingRequest, GetListingResponse


def handle(service: ServiceContext, request: GetListingRequest, call: Call) -> Iterator[GetListingResponse]:
    listings = service.lanes[Work.LARGE].run_for(call, partial(_made, service, request, call))
    service.flight.keep(call, sum(size_of(each) for each in listings))
    for listing in listings:
        yield from service.lanes[Work.BATCH].each_for(call, to_chunks(listing))


def _made(service: ServiceContext, request: GetListingRequest, call: Call) -> list[Listing]:
    listings = [*service.engine.listing(*from_request(request), partial(check_waited_for, call))]
    for listing in listings:
        check_columns(listing.answers, service.config.limits)
    return listings
