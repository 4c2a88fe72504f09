"""BreakpointService: where a source line has code, now and in modules that come later."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

from symd.rpc.wire.breakpoints import (
    from_resolve_request,
    from_watch_request,
    size_of,
    to_events,
    to_location,
    to_refusal,
)
from symd.server.answering import method
from symd.server.call import Call
from symd.server.guard import while_waited_for
from symd.server.paging import slice_page
from symd.server.service_context import ServiceContext
from symd.server.work_queues import Work
from symd.v1.breakpoint_service_pb2 import (
    ResolveBreakpointRequest,
    ResolveBreakpointResponse,
    WatchBreakpointsRequest,
    WatchBreakpointsResponse,
)


def resolve_breakpoint(
    service: ServiceContext, request: ResolveBreakpointRequest, call: Call
) -> ResolveBreakpointResponse:
    digest, asked = from_resolve_request(request)
    answer = service.engine.locate(
        digest,
        asked.where,
        asked.path,
        every_address=asked.every_address,
        rules=asked.rules,
        targets=asked.targets,
        check_cancelled=while_waited_for(call, service.config.limits),
    )
    of = f"{digest}/breakpoints/{sha256(repr(asked).encode()).hexdigest()}"  # 100 path rules make a long text
    page, token = slice_page(answer.locations, of, request.page_size, request.page_token, to_location)
    return ResolveBreakpointResponse(locations=page, refusal=to_refusal(answer), next_page_token=token)


@method(work=Work.WATCH)
def watch_breakpoints(
    service: ServiceContext, request: WatchBreakpointsRequest, call: Call
) -> Iterator[WatchBreakpointsResponse]:
    """A thread that sleeps until a module arrives or the call ends."""
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
