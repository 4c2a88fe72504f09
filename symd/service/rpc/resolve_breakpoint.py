"""BreakpointService.ResolveBreakpoint."""

from __future__ import annotations

import grpc

from symd.service.guard import check_deadline
from symd.service.paging import slice_page
from symd.service.parts import Parts
from symd.v1.breakpoint_service_pb2 import ResolveBreakpointRequest, ResolveBreakpointResponse
from symd.wire.breakpoints import from_breakpoint, to_refusal, to_spot
from symd.wire.names import module_digest


def handle(parts: Parts, request: ResolveBreakpointRequest, context: grpc.ServicerContext) -> ResolveBreakpointResponse:
    check_deadline(context)
    asked = from_breakpoint(request.breakpoint)
    digest = module_digest(request.name)
    answer = parts.engine.locate(digest, asked.where, asked.path, every=asked.every, rules=asked.rules)
    of = f"{digest}/places/{asked.where}/{asked.path}/{asked.every}"
    page, token = slice_page(answer.spots, of, request.page_size, request.page_token)
    return ResolveBreakpointResponse(places=map(to_spot, page), refusal=to_refusal(answer), next_page_token=token)
