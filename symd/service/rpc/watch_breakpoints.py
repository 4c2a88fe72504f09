"""BreakpointService.WatchBreakpoints: a thread that sleeps until a module arrives or the call ends."""

from __future__ import annotations

from collections.abc import Iterator

import grpc

from symd.service.service_context import ServiceContext
from symd.v1.breakpoint_service_pb2 import WatchBreakpointsRequest, WatchBreakpointsResponse
from symd.wire.breakpoints import from_watch_request, to_events


def handle(
    service: ServiceContext, request: WatchBreakpointsRequest, call: grpc.ServicerContext
) -> Iterator[WatchBreakpointsResponse]:
    breakpoints, only_new = from_watch_request(request)
    with service.engine.watch(breakpoints, only_new=only_new) as watch, service.watches.taken(watch.close):
        if not call.add_callback(watch.close):
            return  # it has ended already
        service.check_running()
        for event in watch:
            yield from to_events(event)
        service.check_running()
