"""BreakpointService.WatchBreakpoints: a thread that sleeps until a module arrives or the call ends."""

from __future__ import annotations

from collections.abc import Iterator

from symd.rpc.wire.breakpoints import from_watch_request, size_of, to_events
from symd.server.call import Call
from symd.server.lanes import Work
from symd.server.service_context import ServiceContext
from symd.v1.breakpoint_service_pb2 import WatchBreakpointsRequest, WatchBreakpointsResponse

WORK = Work.WATCH


def handle(service: ServiceContext, request: WatchBreakpointsRequest, call: Call) -> Iterator[WatchBreakpointsResponse]:
    breakpoints, only_new, resume_after = from_watch_request(request)
    del request  # else as long as the watch
    service.flight.keep(call, sum(map(size_of, breakpoints)))
    with (
        service.engine.watch(breakpoints, only_new=only_new, resume_after=resume_after) as watch,
        service.watches.opened(call.client, watch.close),
    ):
        if not call.add_callback(watch.close):
            return  # it has ended already
        service.check_running()
        for event in watch:
            yield from to_events(event)
        service.check_running()
