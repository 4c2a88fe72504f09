"""BreakpointService.ResolveBreakpoint."""

from __future__ import annotations

from hashlib import sha256

from symd.rpc.wire.breakpoints import from_resolve_request, to_location, to_refusal
from symd.server.call import Call
from symd.server.guard import while_waited_for
from symd.server.paging import slice_page
from symd.server.service_context import ServiceContext
from symd.v1.breakpoint_service_pb2 import ResolveBreakpointRequest, ResolveBreakpointResponse


def handle(service: ServiceContext, request: ResolveBreakpointRequest, call: Call) -> ResolveBreakpointResponse:
    digest, asked = from_resolve_request(request)
    answer = service.engine.locate(
        digest,
        asked.where,
        asked.path,
        every_address=asked.every_address,
        rules=asked.rules,
        check_wanted=while_waited_for(call, service.config.limits),
    )
    of = f"{digest}/breakpoints/{sha256(repr(asked).encode()).hexdigest()}"  # 100 path rules make a long text
    page, token = slice_page(answer.locations, of, request.page_size, request.page_token, to_location)
    return ResolveBreakpointResponse(locations=page, refusal=to_refusal(answer), next_page_token=token)
