"""How a call is answered, on the event loop: its message awaited, a lane taken, the handler run there, its answer sent.

Bytes become messages, and messages bytes, in the lane's thread: a large one would hold up every other call for as long as that
takes. What a method can answer at once (``at_once`` of its module) is answered on the loop, which saves the way to a thread
and back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError, Message
from grpc.aio import EOF

from symd.errors import InvalidInput, Malformed
from symd.service.bridge import Requests, Responses
from symd.service.call import Call
from symd.service.guard import check_deadline
from symd.service.lanes import Work
from symd.service.service_context import ServiceContext

Handler = Callable[[ServiceContext, Any, Call], Any]
"""Takes the service's context, the request (or an iterator of them) and the call; returns the response (or an iterator)."""
AtOnce = Callable[[ServiceContext, Any], Message | None]
"""The response to a request, where making it takes no longer than the way to a thread and back; None where it may."""

AT_ONCE_BYTES = 4096
"""A larger request is not read on the event loop."""
BATCH_BYTES = 64 << 10
"""A request of more bytes is a large batch, whatever it asks."""


class Method(NamedTuple):
    """A method, by its full name."""

    name: str
    handle: Handler
    request: type[Message]
    work: Work
    at_once: AtOnce | None
    many_requests: bool
    many_responses: bool

    def read(self, data: bytes) -> Message:
        """The request. Were gRPC to read it, invalid bytes would be a traceback in the log and the status INTERNAL."""
        try:
            return self.request.FromString(data)
        except DecodeError as error:
            raise Malformed(f"not a {self.request.DESCRIPTOR.full_name}: {error}", where="the request") from None


async def answer_one(method: Method, service: ServiceContext, context: Any, call: Call) -> bytes:
    """One request, one response."""
    data = await service.waiting.first_message(context, call)
    if data is EOF:
        raise await _no_message()
    check_deadline(call)
    if method.at_once is not None and len(data) <= AT_ONCE_BYTES:
        response = method.at_once(service, method.read(data))
        if response is not None:
            return response.SerializeToString()
    work = Work.BATCH if len(data) > BATCH_BYTES else method.work
    return await service.lanes[work].run(call.client, partial(_read_and_answer, method, service, data, call))


async def answer_stream(method: Method, service: ServiceContext, context: Any, call: Call) -> bytes | None:
    """Several requests or responses; the response where there is one."""
    first = await service.waiting.first_message(context, call)
    if first is EOF and not method.many_requests:
        raise await _no_message()
    check_deadline(call)
    requests = Requests(first) if method.many_requests else None
    responses = Responses() if method.many_responses else None
    asked = requests or partial(method.read, first)
    work = partial(_answer_with, method, service, asked, responses, call)
    service.waiting.open(call, context, requests, responses)
    job = asyncio.get_running_loop().create_task(service.lanes[method.work].run(call.client, work))
    job.add_done_callback(_retrieved)
    receiving = _receive(requests, context, call)
    try:
        if responses is not None:
            call.add_callback(responses.end)
            job.add_done_callback(lambda _: responses.close())
            await responses.send(context.write)
        return await job
    finally:
        service.waiting.close(call)
        job.cancel()
        del receiving


def _receive(requests: Requests | None, context: Any, call: Call) -> asyncio.Task[None] | None:
    if requests is None:
        return None
    call.add_callback(requests.end)
    return asyncio.get_running_loop().create_task(requests.receive(context.read))


def _read_and_answer(method: Method, service: ServiceContext, data: bytes, call: Call) -> bytes:
    response: Message = method.handle(service, method.read(data), call)
    return response.SerializeToString()


def _answer_with(
    method: Method,
    service: ServiceContext,
    asked: Requests | Callable[[], Message],
    responses: Responses | None,
    call: Call,
) -> bytes | None:
    """In the lane's thread."""
    request = map(method.read, asked) if isinstance(asked, Requests) else asked()
    answer = method.handle(service, request, call)
    if responses is None:
        response: bytes = answer.SerializeToString()
        return response
    with closing(answer):
        for each in answer:
            responses.put(each.SerializeToString())
    return None


def _retrieved(job: asyncio.Task[Any]) -> None:
    """Its error is told by whoever waits for it, if anybody does."""
    if not job.cancelled():
        job.exception()


async def _no_message() -> InvalidInput:
    """The error of a call that ended without a message; one that was cancelled looks the same, and learns of that first."""
    await asyncio.sleep(0)
    return InvalidInput("the call has no message", hint="send one")
