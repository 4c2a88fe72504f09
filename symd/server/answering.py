"""How a call is answered, on the event loop: its message awaited, a work queue chosen, the handler run there, its
answer sent.

Bytes become messages, and messages bytes, in a thread of the work queue: a large one would hold up every other call for
as long as that takes. A method may have a fast path on the loop (``MethodOptions.inline``), which saves the way to a
thread and back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, NamedTuple, TypeVar

from google.protobuf.message import Message
from grpc.aio import EOF

from symd.api import Pending
from symd.config import Limits
from symd.errors import InvalidInput, LimitExceeded, SymdError
from symd.rpc.wire.columns import COUNTED_BYTES as COUNTED_FIELDS_BYTES
from symd.rpc.wire.columns import check_fields
from symd.rpc.wire.fields import leading_digest, leading_digest_of_batch
from symd.server.call import Call
from symd.server.config import Right
from symd.server.guard import check_deadline
from symd.server.logs import note_request
from symd.server.messages import (
    COUNTED_BYTES,
    INLINE_BYTES,
    BytesInFlight,
    Requests,
    Responses,
    TakenOnce,
    parsed,
    response_too_large,
)
from symd.server.service_context import ServiceContext
from symd.server.work_queues import Work
from symd.store.rows import catalogue_lock_timeout

Result = TypeVar("Result")
Handler = Callable[[ServiceContext, Any, Call], Any]
"""Takes the service's context, the request (or an iterator of them) and the call; returns the response, or its bytes
(or an iterator)."""
FastPath = Callable[[ServiceContext, bytes, Call], bytes | None]
"""Takes the service's context, a small request (at most ``INLINE_BYTES`` bytes) and the call; returns the response as
bytes, or None where only the handler can answer."""

Failed = Callable[[Any, SymdError], Message]
"""The response to a request that could not be served, of a stream that goes on all the same: each of its requests is
answered by one response, as if it were a call of its own."""


class MethodOptions(NamedTuple):
    """What a handler is decorated with.

    ``right``: what a client needs to call the method. ``work``: the work queue (default: STREAM if a method streams,
    else QUESTION). ``inline``: a fast path on the event loop, which must take no longer than the way to a thread and
    back, and calls ``note_request``. ``cold``: a fast path in the worker thread for a module whose index is not
    open, before the handler's request is parsed. ``failed``: makes the response to a failed request of a stream.
    """

    right: Right
    work: Work | None = None
    inline: FastPath | None = None
    cold: FastPath | None = None
    failed: Failed | None = None


_OPTIONS: dict[Handler, MethodOptions] = {}
REQUEST_FIELDS = 400_000
"""Fields of one request of more than a megabyte; an address that is no column's is a field."""


def method(
    right: Right,
    *,
    work: Work | None = None,
    inline: FastPath | None = None,
    cold: FastPath | None = None,
    failed: Failed | None = None,
) -> Callable[[Handler], Handler]:
    """Decorate a handler with its ``MethodOptions``."""

    def noted(handler: Handler) -> Handler:
        _OPTIONS[handler] = MethodOptions(right, work, inline, cold, failed)
        return handler

    return noted


def options_of(handler: Handler) -> MethodOptions:
    """The options that a handler is decorated with. Raises TypeError for one that is not: it would be anybody's to
    call."""
    if handler not in _OPTIONS:
        raise TypeError(f"{handler.__module__}.{handler.__name__} declares no right: decorate it with answering.method")
    return _OPTIONS[handler]


BATCH_BYTES = 64 << 10
"""A request of more bytes is a large batch, whatever it asks."""
REQUEST_BYTES = 8 << 20
"""The largest request that is no batch, no grab and no message of a stream."""


class Method(NamedTuple):
    """A method, by its full name."""

    name: str
    handle: Handler
    request: type[Message]
    options: MethodOptions
    many_requests: bool
    many_responses: bool

    @property
    def work(self) -> Work:
        """The kind of work: that of its options, else streams for a method that streams and questions for any other."""
        return self.options.work or (Work.STREAM if self.many_requests or self.many_responses else Work.QUESTION)

    @property
    def has_size_limit(self) -> bool:
        """Whether ``REQUEST_BYTES`` bounds the request: it is no batch, no grab and no message of several."""
        return not self.many_requests and self.options.inline is None and self.work not in (Work.BATCH, Work.GRAB)

    def read(self, data: bytes) -> Message:
        """The request. Raises ``LimitExceeded`` for one that is too large to be read in one go, and ``Malformed``."""
        if self.has_size_limit and len(data) > REQUEST_BYTES:
            raise LimitExceeded(
                f"the request has {len(data)} bytes, at most {REQUEST_BYTES} are taken",
                hint="ask for less at a time",
                metadata={"limit": "request_bytes", "value": str(REQUEST_BYTES)},
            )
        if len(data) >= COUNTED_FIELDS_BYTES:
            check_fields(data, self.request.DESCRIPTOR, REQUEST_FIELDS)
        return parsed(self.request, data, self.request.DESCRIPTOR.full_name)


async def serve_unary(method: Method, service: ServiceContext, context: Any, call: Call) -> bytes:
    """One request, one response."""
    arrived = TakenOnce(await service.waiting.first_message(context, call))
    if arrived.peek() is EOF:
        raise await _no_message()
    call.received = len(arrived.peek())
    check_deadline(call)

    if method.options.inline is not None and call.received <= INLINE_BYTES:
        reply = method.options.inline(service, arrived.peek(), call)
        call.index_was_open = reply is not None
        if reply is not None:
            call.sent = len(reply)
            return reply

    work = _kind_of_work(method, service, arrived.peek())
    holding = _Holding(service.flight, call.client, context)
    holding.take(call.received)
    job = _in_call_span(call, partial(_runner_for(work), method, service, arrived, call))
    response = await service.work_queues[work].run(call.client, job)

    holding.release()
    holding.take(len(response))
    call.sent = len(response)
    return response


def _kind_of_work(method: Method, service: ServiceContext, data: bytes) -> Work:
    """Which work queue a request belongs to, found without decoding it."""
    if method.work is not Work.QUESTION:
        return method.work
    digest = leading_digest(data)
    if digest is None and _QUERIES in method.request.DESCRIPTOR.fields_by_name:
        return Work.BATCH
    return _kind_of_question(service, digest, len(data))


_QUERIES = "queries"
"""The field of requests for addresses. One that names no module is about device memory, or several modules, and their
indexes need not be open."""


def _kind_of_question(service: ServiceContext, digest: str | None, size: int) -> Work:
    if digest is not None and not service.engine.is_open(digest):
        return Work.COLD_QUESTION
    return Work.BATCH if size > BATCH_BYTES else Work.QUESTION


class _Holding:
    """Counts the bytes of a call's messages until gRPC has done with it."""

    def __init__(self, flight: BytesInFlight, client: str, context: Any) -> None:
        self._flight = flight
        self._client = client
        self._context = context
        self._size = 0

    def take(self, size: int) -> None:
        """Count a message. Raises ``Busy``."""
        if size >= COUNTED_BYTES:
            if not self._size:
                self._context.add_done_callback(self.release)
            self._size += self._flight.hold(self._client, size)

    def release(self, _context: Any = None) -> None:
        """Say that what was counted is held no longer."""
        self._flight.release(self._client, self._size)
        self._size = 0


async def serve_stream(method: Method, service: ServiceContext, context: Any, call: Call) -> bytes | None:
    """Several requests or responses; the response where there is one. A request that is the only one counts as long as
    the call."""
    arrived = TakenOnce(await service.waiting.first_message(context, call))
    if arrived.peek() is EOF and not method.many_requests:
        raise await _no_message()
    check_deadline(call)
    if not method.many_requests:
        call.received = len(arrived.peek())
        service.flight.keep(call, call.received)
    call.loop = asyncio.get_running_loop()

    asked: Requests | TakenOnce[bytes] = arrived
    if method.many_requests:
        asked = Requests(arrived.take(), context.read, service.flight, call, service.config.limits)
    responses = Responses(context.write, service.flight, call) if method.many_responses else None
    work = _in_call_span(call, partial(_run_streaming_handler, method, service, asked, responses, call))
    service.waiting.open(call, context)
    job = call.loop.create_task(service.work_queues[method.work].run(call.client, work))
    job.add_done_callback(_retrieve_error)
    try:
        await asyncio.wait([job])
        if responses is not None:
            await responses.last_taken()  # gRPC ends no call, with an error neither, while a message is under way
        return await job
    finally:
        service.waiting.close(call)
        job.cancel()


def _in_call_span(call: Call, work: Callable[[], Result]) -> Callable[[], Result]:
    """``work`` for another thread: spans that begin there are below the call's, where it has one."""
    if call.span is None:
        return work

    def spanned() -> Result:
        with call.in_span():
            return work()

    return spanned


_Runner = Callable[[Method, ServiceContext, TakenOnce[bytes], Call], bytes]
"""Answers a request, in a thread of a work queue. Returns the response as bytes."""


def _runner_for(work: Work) -> _Runner:
    if work is Work.COLD_QUESTION:
        return _run_unless_pending
    return _run_write if work is Work.WRITE else _run_handler


def _run_unless_pending(method: Method, service: ServiceContext, arrived: TakenOnce[bytes], call: Call) -> bytes:
    """Answer by the method's ``cold`` path, else by ``_run_handler``. Where another thread makes the index that
    it needs, ``Pending`` is raised and ``arrived`` is as before."""
    data = arrived.peek()
    if method.options.cold is not None and len(data) <= INLINE_BYTES:
        reply = method.options.cold(service, data, call)
        if reply is not None:
            return reply
    with service.engine.without_waiting():
        try:
            return _run_handler(method, service, arrived, call)
        except Pending:
            arrived.put_back(data)
            raise


def _run_write(method: Method, service: ServiceContext, arrived: TakenOnce[bytes], call: Call) -> bytes:
    """``_run_unless_pending``, but where others change the catalogue they are waited for no longer than the caller
    waits."""
    with catalogue_lock_timeout(call.time_remaining()):
        return _run_unless_pending(method, service, arrived, call)


def _run_handler(method: Method, service: ServiceContext, arrived: TakenOnce[bytes], call: Call) -> bytes:
    """Take and parse the request, call the handler and serialize its response. The parsed request is the handler's
    alone, which may let go of it."""
    limits = service.config.limits
    request = TakenOnce(method.read(arrived.take()))
    note_request(call, request.peek())
    return _serialized(method.handle(service, request.take(), call), limits)


def _serialized(response: Message | bytes, limits: Limits) -> bytes:
    """The bytes of a response. Raises ``LimitExceeded``."""
    data = response if isinstance(response, bytes) else response.SerializeToString()
    if len(data) > limits.response_bytes:
        raise response_too_large(len(data), limits.response_bytes)
    return data


def _run_streaming_handler(
    method: Method,
    service: ServiceContext,
    asked: Requests | TakenOnce[bytes],
    responses: Responses | None,
    call: Call,
) -> bytes | None:
    """Answer a call with streams, in a thread of the work queue."""
    limits = service.config.limits
    if method.options.failed is not None and isinstance(asked, Requests) and responses is not None:
        _serve_each_request(method, service, asked, responses, call)
        return None
    answer = method.handle(service, _asked(method, asked, call), call)
    if responses is None:
        return _serialized(answer, limits)
    with closing(answer):
        for number, each in enumerate(answer):
            if number:
                call.check_let_in()
            data = _serialized(each, limits)
            call.sent += len(data)
            responses.put(data)
    return None


def _serve_each_request(
    method: Method, service: ServiceContext, requests: Requests, responses: Responses, call: Call
) -> None:
    """Answer each request in the work queue in which a call of its own would be answered."""
    for arrived in map(TakenOnce, requests):
        call.check_let_in()
        call.received += len(arrived.peek())
        response = _serve_in_own_queue(method, service, arrived, call)
        call.sent += len(response)
        responses.put(response)
        service.check_running()
        if not call.is_active():
            return


def _serve_in_own_queue(method: Method, service: ServiceContext, arrived: TakenOnce[bytes], call: Call) -> bytes:
    """Answer a request of a stream in its work queue."""
    digest = leading_digest_of_batch(arrived.peek())
    work = Work.BATCH if digest is None else _kind_of_question(service, digest, len(arrived.peek()))
    run = _runner_for(work)
    try:
        return service.work_queues[work].run_for(call, lambda: run(method, service, arrived, call))
    except SymdError as error:
        if method.options.failed is None or arrived.is_taken:
            raise
        limits = service.config.limits  # the work queue refused it
        return _serialized(method.options.failed(method.read(arrived.take()), error), limits)


def _asked(method: Method, asked: Requests | TakenOnce[bytes], call: Call) -> Any:
    """The request, or an iterator of them."""
    if isinstance(asked, Requests):
        return RequestIterator(method, asked, call)
    request = method.read(asked.take())
    note_request(call, request)
    return request


class RequestIterator(Iterator[Any]):
    """The requests of a stream, for its handler's thread, which waits for the next one. ``poll`` does not."""

    def __init__(self, method: Method, requests: Requests, call: Call) -> None:
        self._method, self._requests, self._call = method, requests, call
        self._begun = False

    def __next__(self) -> Any:
        return self._read(next(self._requests))

    def poll(self) -> Any:
        """The next request where one has come; None where none has, or will."""
        data = self._requests.poll()
        return None if data is None else self._read(data)

    @contextmanager
    def notifying(self, callback: Callable[[], None]) -> Iterator[None]:
        """Have ``callback``, which must not wait, called on the event loop whenever a request has come, while it
        lasts."""
        silent, self._requests.notify = self._requests.notify, callback
        try:
            callback()
            yield
        finally:
            self._requests.notify = silent

    def _read(self, data: bytes) -> Message:
        if self._begun:
            self._call.check_let_in()
        self._begun = True
        self._call.received += len(data)
        return self._method.read(data)


def _retrieve_error(job: asyncio.Task[Any]) -> None:
    """Take note of the error of a job that nobody may wait for, so that asyncio does not log it."""
    if not job.cancelled():
        job.exception()


async def _no_message() -> InvalidInput:
    """The error of a call that ended without a message; one that was cancelled looks the same, and learns of that
    first."""
    await asyncio.sleep(0)
    return InvalidInput("the call has no message", hint="send one")
