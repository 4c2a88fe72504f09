"""One request over HTTP from its head to the last byte of its answer: its right, its body, the work queue, the answer,
and the resources that it holds meanwhile.

An error of symd is a status and a JSON object with the facts that gRPC's details have. What pages of other origins may
send, read and change is checked here, too.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final

from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from symd.errors import DeadlineExceeded, LimitExceeded, PermissionDenied, SymdError, Unavailable
from symd.model.cancellation import cancelled_by
from symd.server import messages, waiting
from symd.server.http.principals import HttpPrincipal
from symd.server.http.site import CostClass, HttpRequest, HttpWorkQueue, Lacking, Reply, Site, WebRoute, json_reply
from symd.server.logs import defect

CANCELLED = "CANCELLED"
"""The outcome of a request whose answer did not leave whole."""


@dataclass(slots=True)
class Exchange:
    """One request over HTTP and its answer. ``outcome`` is ``OK`` or the reason of an error, ``limit`` the limit
    that it names; ``status`` is 0 before there is an answer. ``received`` and ``sent`` are bytes of bodies.
    ``visitor`` is None where nobody was let in, ``route`` where there is none."""

    connection: HTTPConnection
    begun: float = field(default_factory=time.monotonic)
    visitor: HttpPrincipal | None = None
    route: WebRoute | None = None
    status: int = 0
    received: int = 0
    sent: int = 0
    limit: str = ""
    _reason: str = ""
    _is_whole: bool = False
    _held: list[Callable[[], None]] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        """What came of it."""
        if not self._is_whole:
            return self._reason or CANCELLED
        if self._reason:
            return self._reason
        return "OK" if self.status < HTTPStatus.BAD_REQUEST else HTTPStatus(self.status).name

    def failed(self, error: SymdError) -> None:
        """Note why it was refused."""
        self._reason, self.limit = error.reason, str(error.metadata.get("limit", ""))

    def left(self) -> None:
        """Note that the client has gone."""
        self._reason = CANCELLED

    def hold(self, work_queue: HttpWorkQueue, visitor: HttpPrincipal, size: int) -> None:
        """Count so many bytes as held until it has ended. Raises Busy."""
        self._held.append(work_queue.hold(visitor, size))

    def release(self) -> None:
        """Count nothing any more."""
        while self._held:
            self._held.pop()()

    def receiving(self, receive: Receive) -> Receive:
        """``receive`` with the bytes of the request's body counted."""

        async def counted() -> Any:
            message = await receive()
            self.received += len(message.get("body", b""))
            return message

        return counted

    def sending(self, send: Send) -> Send:
        """``send`` with the bytes of the answer's body counted, and its status noted."""

        async def counted(message: Any) -> None:
            await send(message)
            if message["type"] == "http.response.start":
                self.status = message["status"]
            else:
                self.sent += len(message.get("body", b""))
                self._is_whole = not message.get("more_body", False)

        return counted


Ended = Callable[[Exchange], None]
"""Called with each request that has ended."""


STATUSES: Final[Mapping[str, int]] = MappingProxyType(
    {
        "INVALID_ARGUMENT": 400,
        "OUT_OF_RANGE": 400,
        "FAILED_PRECONDITION": 409,
        "UNAUTHENTICATED": 401,
        "PERMISSION_DENIED": 403,
        "NOT_FOUND": 404,
        "RESOURCE_EXHAUSTED": 429,
        "DEADLINE_EXCEEDED": 504,
        "UNAVAILABLE": 503,
        "UNIMPLEMENTED": 501,
        "DATA_LOSS": 500,
        "INTERNAL": 500,
    }
)
"""HTTP status codes by gRPC's name of the status (google/rpc/code.proto has the same table)."""


def error_reply(error: SymdError) -> Reply:
    """The answer in place of what was asked for."""
    headers = {}
    if error.retry_seconds is not None:
        headers["retry-after"] = str(max(1, round(error.retry_seconds)))
    body = {
        "error": {
            "reason": error.reason,
            "message": error.message,
            "where": error.where,
            "hint": error.hint,
            "metadata": error.metadata,
        }
    }
    return json_reply(body, STATUSES[error.status])._replace(headers=headers)


_SAFE: Final = frozenset(("GET", "HEAD"))
_OF_OTHERS: Final = frozenset(("cross-site", "same-site"))
_LINKED: Final = ("document", "")
"""What a link that is followed brings (w3.org/TR/fetch-metadata, Sec-Fetch-Dest), and browsers that do not say it; a
frame is none."""


async def preflight(route: WebRoute, request: Request) -> Response:
    """What a page of another origin may send (fetch.spec.whatwg.org, CORS protocol)."""
    allowed = headers_for(route, request)
    if allowed:
        allowed |= {
            "access-control-allow-methods": f"{route.method}, OPTIONS",
            "access-control-allow-headers": "content-type, authorization",
            "access-control-max-age": "600",
        }
        if (
            request.headers.get("access-control-request-private-network") == "true"
        ):  # a page of the web asks a server of this machine
            allowed["access-control-allow-private-network"] = "true"
    return Response(status_code=204, headers=allowed)


def headers_for(route: WebRoute, request: Request) -> dict[str, str]:
    """Headers of an answer that let the page which asked for it read it; none where it may not."""
    origin = request.headers.get("origin", "")
    if not origin or not {"*", origin} & set(route.origins):
        return {}
    return {"access-control-allow-origin": origin, "vary": "origin", "cross-origin-resource-policy": "cross-origin"}


def check_origin(route: WebRoute, request: Request) -> None:
    """Raises PermissionDenied where a page of another origin wants something changed, or brought here, with what its
    visitor's browser shows by itself (a kept password): told by Origin, or by Fetch Metadata where a browser leaves
    that out. A link that is followed is no such thing."""
    told = request.headers
    origin = told.get("origin", "")
    if {"*", origin} & set(route.origins):
        return
    linked = (
        request.method in _SAFE
        and told.get("sec-fetch-mode") == "navigate"
        and told.get("sec-fetch-dest", "") in _LINKED
    )
    fetched = told.get("sec-fetch-site") in _OF_OTHERS and not linked
    if fetched or (origin and origin.partition("://")[2] != told.get("host")):
        raise PermissionDenied("a page of another origin may not do that", where=origin[:200])


log = logging.getLogger("symd.server.http")

COMPRESSED_BYTES: Final = 2048
"""Answers of fewer bytes are sent as they are."""
COUNTED_BYTES: Final = 64 << 10
"""Bytes of a body that are counted, and of an answer that are sent, at a time."""
SLOWEST: Final = 256 << 10
"""Bytes a second that a client takes of a large answer at least, besides what it has ``WRITE_SECONDS`` for."""
_GZIP_LEVEL: Final = 3
"""The level, of 1 to 9: whoever asked waits for it."""


def served(site: Site, work_queue: HttpWorkQueue, route: WebRoute) -> Iterator[Route]:
    """A route as Starlette knows it, answered in ``work_queue``; and what a page of another origin asks before it."""
    yield Route(route.path, partial(_answered, site, work_queue, route), methods=[route.method])
    if route.origins:
        yield Route(route.path, partial(preflight, route), methods=["OPTIONS"])


async def _answered(site: Site, work_queue: HttpWorkQueue, route: WebRoute, request: Request) -> Response:
    """The answer of a route. The bytes of the body count until the exchange has ended. Where the client leaves before
    that, the work queue's thread has the body until it notices, and those bytes are counted no more."""
    visitor: HttpPrincipal = request.scope["visitor"]
    exchange: Exchange = request.scope["exchange"]
    exchange.route = route
    try:
        visitor.check(route.right, request.scope["path"])
        check_origin(route, request)
        body = await _body(request, route, work_queue, waiting.MESSAGE_SECONDS)
        asked = HttpRequest(visitor, request.path_params, request.query_params, request.headers, body)
        del body
        reply = await _answer_while_connected(request, route, partial(_reply, site, work_queue, route, asked))
        del asked
        exchange.release()
        if isinstance(reply.body, bytes):
            exchange.hold(work_queue, visitor, len(reply.body))
    except ClientDisconnect:
        exchange.left()
        return Response(status_code=400)  # nobody hears it
    except asyncio.CancelledError:
        stopping = Unavailable("the daemon is stopping", hint="ask again when it is back")
        exchange.failed(stopping)
        reply = error_reply(stopping)
    except SymdError as error:
        exchange.failed(error)
        reply = error_reply(error)
    except Exception as error:  # noqa: BLE001 - the last guard: logged whole, and the visitor gets its id
        found = defect(error, log)
        exchange.failed(found)
        reply = error_reply(found)
    more = headers_for(route, request)
    if isinstance(reply.body, bytes):
        return _whole(reply, reply.body, more)
    pieces = _pieces(work_queue, exchange, visitor, route, reply.body)
    return StreamingResponse(pieces, reply.status, {**reply.headers, **more}, reply.content_type)


async def _answer_while_connected(
    request: Request, route: WebRoute, answer: Callable[[threading.Event], Awaitable[Reply]]
) -> Reply:
    """What is answered, as long as the client is there: a question is given up where it leaves. Raises
    ClientDisconnect, also where the server stops when the client has left. What somebody sent is kept all the same."""
    left, asking = threading.Event(), asyncio.current_task()
    leaving = asyncio.create_task(_leaving(request, left, asking if _is_question(route) else None))
    try:
        return await answer(left if _is_question(route) else threading.Event())
    except asyncio.CancelledError:
        if not left.is_set():
            raise
        while asking is not None and asking.uncancel():
            pass
        raise ClientDisconnect from None
    finally:
        leaving.cancel()


async def _leaving(request: Request, left: threading.Event, asking: asyncio.Task[Any] | None) -> None:
    """End the task that asks when the client leaves."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    left.set()
    if asking is not None:
        asking.cancel()


def _is_question(route: WebRoute) -> bool:
    return route.effort in (CostClass.QUESTION, CostClass.LARGE)


async def _reply(
    site: Site, work_queue: HttpWorkQueue, route: WebRoute, asked: HttpRequest, left: threading.Event
) -> Reply:
    small = "gzip" in asked.headers.get("accept-encoding", "")

    async def answered(by: Site) -> Reply:
        def work() -> Reply:
            is_there = partial(_check_is_there, left)
            with cancelled_by(waiting.with_question_limit(site.limits, is_there)):
                return _compressed(route.handle(by, asked._replace(check_is_there=is_there)), small)

        return await work_queue.run(asked.visitor, route.effort, work, repeatable=_is_question(route))

    try:
        return await answered(site)
    except Lacking as lacking:
        if (fetch := site.fetch) is not None:
            await work_queue.run(asked.visitor, CostClass.FETCH, partial(fetch, lacking.build_id))
    return await answered(site.by_itself())


def _check_is_there(left: threading.Event) -> None:
    if left.is_set():
        raise ClientDisconnect


def _whole(reply: Reply, body: bytes, more: Mapping[str, str]) -> Response:
    seconds = messages.WRITE_SECONDS + len(body) / SLOWEST
    return _WholeResponse(body, reply.status, {**reply.headers, **more}, reply.content_type, seconds)


class _WholeResponse(Response):
    """An answer that leaves piece by piece, as the client takes it, so that what waits to be sent is what is counted as
    held. Who has not taken it within ``seconds`` does not get the rest."""

    def __init__(self, body: bytes, status: int, headers: Mapping[str, str], content_type: str, seconds: float) -> None:
        super().__init__(body, status, headers, content_type)
        self._seconds = seconds

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        body = memoryview(self.body)
        async with asyncio.timeout(self._seconds):
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            for at in range(0, len(body), COUNTED_BYTES):
                piece = bytes(body[at : at + COUNTED_BYTES])
                await send({"type": "http.response.body", "body": piece, "more_body": at + len(piece) < len(body)})
            if not body:
                await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _pieces(
    work_queue: HttpWorkQueue, exchange: Exchange, visitor: HttpPrincipal, route: WebRoute, pieces: Iterator[bytes]
) -> AsyncIterator[bytes]:
    try:
        while (piece := await work_queue.run(visitor, route.effort, lambda: next(pieces, None))) is not None:
            yield piece
    except SymdError as error:  # too late for another status: the answer ends in the middle
        exchange.failed(error)
        raise


async def _body(request: Request, route: WebRoute, work_queue: HttpWorkQueue, seconds: float) -> bytes:
    """The whole body, counted as it comes. Raises LimitExceeded, Busy and DeadlineExceeded."""
    exchange: Exchange = request.scope["exchange"]
    announced = request.headers.get("content-length", "0")
    if int(announced) > route.body_limit:
        raise _too_long(route, request)
    taken, counted = bytearray(), 0
    try:
        async with asyncio.timeout(seconds):
            async for piece in request.stream():
                taken += piece
                if len(taken) > route.body_limit:
                    raise _too_long(route, request)
                if len(taken) - counted >= COUNTED_BYTES:
                    exchange.hold(work_queue, request.scope["visitor"], len(taken) - counted)
                    counted = len(taken)
    except TimeoutError:
        raise DeadlineExceeded(
            f"the request's body did not come within {seconds:g} s",
            where=request.url.path,
            metadata={"limit": "message_seconds"},
        ) from None
    return bytes(taken)


def _too_long(route: WebRoute, request: Request) -> LimitExceeded:
    most = route.body_limit
    what, metadata = f"the request's body has more than {most} bytes", {"limit": "body_bytes", "value": str(most)}
    return LimitExceeded(what, where=request.url.path, metadata=metadata)


def _compressed(reply: Reply, wanted: bool) -> Reply:
    if (
        not wanted
        or not isinstance(reply.body, bytes)
        or len(reply.body) < COMPRESSED_BYTES
        or reply.headers.get("content-encoding")
    ):
        return reply
    headers = {**reply.headers, "content-encoding": "gzip", "vary": "accept-encoding"}
    return reply._replace(body=gzip.compress(reply.body, _GZIP_LEVEL), headers=headers)
