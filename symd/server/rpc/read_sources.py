"""ListingService.ReadSources: what the module carries, and the files that this daemon was allowed to read."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from symd.rpc.wire.sources import from_request, to_chunks
from symd.server.call import Call
from symd.server.disk_sources import DiskSources
from symd.server.lanes import Work
from symd.server.service_context import ServiceContext
from symd.v1.listing_service_pb2 import ReadSourcesRequest, ReadSourcesResponse


def handle(service: ServiceContext, request: ReadSourcesRequest, call: Call) -> Iterator[ReadSourcesResponse]:
    digest, files, path = from_request(request)
    on_disk = DiskSources(service.config)
    sources = service.lanes[Work.LARGE].run_for(call, partial(service.engine.sources, digest, files, path))
    service.flight.keep(call, sum(len(each.text or "") for each in sources))
    for source in sources:
        found = on_disk.completed(source)
        from_disk = 0 if found is source else len(found.text or "")
        with service.flight.holding(call.client, from_disk):
            yield from service.lanes[Work.BATCH].each_for(call, to_chunks(found))
