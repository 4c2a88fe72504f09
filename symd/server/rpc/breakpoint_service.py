"""BreakpointService: where a breakpoint can go, now and in modules that come later, and what happens to modules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256

from symd.errors import InvalidInput, SymdError
from symd.model.breakpoints import Breakpoint
from symd.model.watches import BreakpointChange, ChangeAcknowledged
from symd.rpc.wire.breakpoints import from_resolve_request, size_of, to_location, to_refusal
from symd.rpc.wire.fields import module_name
from symd.rpc.wire.watches import check_is_change, from_change, from_start, to_responses
from symd.server.answering import Asked, method
from symd.server.call import Call
from symd.server.config import Right
from symd.server.guard import while_waited_for
from symd.server.messages import COUNTED_BYTES
from symd.server.paging import slice_page
from symd.server.service_context import ServiceContext
from symd.server.work_queues import Work
from symd.v1.breakpoint_service_pb2 import ResolveBreakpointRequest, ResolveBreakpointResponse, WatchResponse


@method(Right.READ)
def resolve_breakpoint(
    service: ServiceContext, request: ResolveBreakpointRequest, call: Call
) -> ResolveBreakpointResponse:
    """Answer where a breakpoint can go in one module, page by page, or why it cannot."""
    digest, asked, context = from_resolve_request(request)
    with while_waited_for(call, service.config.limits):
        answer = service.engine.locate(
            digest,
            asked.where,
            asked.path,
            every_address=asked.every_address,
            rules=asked.rules,
            targets=asked.targets,
            context=context,
        )
    of = f"{digest}/breakpoints/{sha256(repr((asked, context)).encode()).hexdigest()}"  # 100 rules make a long text
    page, token = slice_page(answer.locations, of, request.page_size, request.page_token, to_location)
    module = None if answer.module is None else module_name(answer.module)
    return ResolveBreakpointResponse(locations=page, refusal=to_refusal(answer), next_page_token=token, module=module)


@method(Right.READ, work=Work.WATCH)
def watch(service: ServiceContext, requests: Asked, call: Call) -> Iterator[WatchResponse]:
    """A thread that sleeps until something happens, the client changes its breakpoints, or the call ends."""
    first = next(requests, None)
    if first is None:
        raise InvalidInput("the watch has no message", hint="send start, and close your side after it or later")
    start = from_start(first)
    del first  # else as long as the watch
    uncounted = keep_breakpoints(service, call, start.breakpoints)

    def changes() -> Iterator[BreakpointChange]:
        nonlocal uncounted
        while (message := requests.poll()) is not None:
            check_is_change(message)
            try:
                change = from_change(message)
                uncounted = keep_breakpoints(service, call, change.add, uncounted)
            except SymdError as error:
                change = BreakpointChange(failure=error)
            del message
            yield change

    with (
        service.engine.watch(
            start.breakpoints,
            contexts=start.contexts,
            apis=start.apis,
            only_new=start.only_new,
            resume_token=start.resume_token,
            changes=changes,
        ) as watching,
        service.watches.opened(call.client, watching.close),
    ):
        if not call.add_callback(watching.close):
            return  # it has ended already
        service.check_running()
        acknowledged = 0
        with requests.notifying(watching.wake):
            for event in watching:
                if isinstance(event, ChangeAcknowledged):
                    acknowledged += 1
                yield from to_responses(event, acknowledged)
        service.check_running()


def keep_breakpoints(service: ServiceContext, call: Call, breakpoints: Iterable[Breakpoint], uncounted: int = 0) -> int:
    """Count what breakpoints take, and ``uncounted`` bytes before, among those that the daemon holds for the client
    until the watch ends; the bytes that are still too few to be counted. Raises ``Busy``."""
    size = uncounted + sum(map(size_of, breakpoints))
    if size < COUNTED_BYTES:
        return size
    service.flight.keep(call, size)
    return 0
