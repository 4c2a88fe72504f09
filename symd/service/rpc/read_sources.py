"""ListingService.ReadSources: what the module carries, and the files that this daemon was allowed to read."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import grpc

from symd.errors import LimitExceeded
from symd.model.sources import PathRule
from symd.query.source_text import Allowed, completed
from symd.service.guard import check_deadline, while_wanted
from symd.service.parts import Parts
from symd.store.source_files import read_below
from symd.v1.listing_service_pb2 import ReadSourcesRequest, ReadSourcesResponse
from symd.wire.names import module_digest
from symd.wire.sources import to_chunks

FILES = 10_000
"""Files in one request."""


def handle(parts: Parts, request: ReadSourcesRequest, context: grpc.ServicerContext) -> Iterator[ReadSourcesResponse]:
    check_deadline(context)
    if len(request.files) > FILES:
        raise LimitExceeded(f"{len(request.files)} files are asked for, at most {FILES} are answered", hint="ask twice")
    path = request.object if request.HasField("object") else None
    read = partial(read_below, largest=parts.config.limits.source_size)
    rules = tuple(PathRule(prefix, here) for prefix, here in parts.config.source_map)
    allowed = Allowed(parts.config.source_roots, rules)
    with parts.slots.taken():
        for source in parts.engine.sources(module_digest(request.name), request.files, path):
            yield from while_wanted(to_chunks(completed(source, allowed, read)), context)
