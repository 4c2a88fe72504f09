"""ListingService.GetListing."""

from __future__ import annotations

from collections.abc import Iterator

import grpc

from symd.service.guard import check_deadline, while_wanted
from symd.service.parts import Parts
from symd.v1.listing_service_pb2 import GetListingRequest, GetListingResponse
from symd.wire.listings import from_request, to_chunks
from symd.wire.names import module_digest


def handle(parts: Parts, request: GetListingRequest, context: grpc.ServicerContext) -> Iterator[GetListingResponse]:
    check_deadline(context)
    with parts.slots.taken():
        for listing in parts.engine.listing(module_digest(request.name), from_request(request)):
            yield from while_wanted(to_chunks(listing), context)
