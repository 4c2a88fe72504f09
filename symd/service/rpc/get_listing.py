"""ListingService.GetListing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from symd.service.batches import check_columns
from symd.service.call import Call
from symd.service.guard import check_waited_for, while_wanted
from symd.service.semaphores import acquired
from symd.service.service_context import ServiceContext
from symd.v1.listing_service_pb2 import GetListingRequest, GetListingResponse
from symd.wire.listings import from_request, size_of, to_chunks


def handle(service: ServiceContext, request: GetListingRequest, call: Call) -> Iterator[GetListingResponse]:
    with acquired(service.large_answers, call):
        listings = [*service.engine.listing(*from_request(request), partial(check_waited_for, call))]
    for listing in listings:
        check_columns(listing.answers, service.config.limits)
    service.flight.keep(call, sum(size_of(each) for each in listings))
    for listing in listings:
        yield from while_wanted(to_chunks(listing), call)
