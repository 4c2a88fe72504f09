"""BreakpointService.WatchBreakpoints: a thread that sleeps until a module arrives or the call ends."""

from __future__ import annotations

from collections.abc import Iterator

import grpc

from symd.service.guard import check_deadline
from symd.service.parts import Parts
from symd.v1.breakpoint_service_pb2 import WatchBreakpointsRequest, WatchBreakpointsResponse
from symd.wire.breakpoints import from_breakpoint, to_events


def handle(
    parts: Parts, request: WatchBreakpointsRequest, context: grpc.ServicerContext
) -> Iterator[WatchBreakpointsResponse]:
    check_deadline(context)
    breakpoints = [from_breakpoint(each.breakpoint, each.id) for each in request.breakpoints]
    with parts.engine.watch(breakpoints, known=not request.only_new) as watch, parts.watches.taken(watch.close):
        if not context.add_callback(watch.close):
            return  # it has ended already
        parts.check_running()
        for event in watch:
            yield from to_events(event)
        parts.check_running()
