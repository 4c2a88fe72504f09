"""The application: host, door, route, lane, answer; and the headers that every answer has."""

from __future__ import annotations

import asyncio
import gzip
import logging
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from symd.errors import DeadlineExceeded, LimitExceeded, PermissionDenied, SymdError, Unauthenticated
from symd.web.exchange import Ended, Exchange
from symd.web.hosts import KnownHosts
from symd.web.site import Asked, Effort, Lacking, Lane, Reply, Site, WebRoute
from symd.web.statuses import error_reply
from symd.web.visitors import Door, Visitor

log = logging.getLogger("symd.web")

HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""What browsers are told with every answer: nothing of other hosts is loaded, nobody frames the page or learns its address. There are no cookies."""
CHALLENGE: Final = 'Basic realm="symd", charset="UTF-8"'
"""How a browser is asked for a token: as the password, the name is free (RFC 7617)."""
COMPRESSED_BYTES: Final = 2048
"""Answers of fewer bytes are sent as they are."""
COUNTED_BYTES: Final = 64 << 10
"""Bytes of a body that are counted, and of an answer that are sent, at a time."""
SLOWEST: Final = 256 << 10
"""Bytes a second that a client takes of a large answer at least, besides what it has the limit ``write_seconds`` for."""
_GZIP_LEVEL: Final = 3
"""Of 1 to 9: whoever asked waits for it."""
_SAFE: Final = frozenset(("GET", "HEAD"))
_OF_OTHERS: Final = frozenset(("cross-site", "same-site"))
_CLOSE: Final = {"connection": "close"}


def _nobody(_exchange: Exchange) -> None:
    """The default: nobody is told."""


def build_app(
    site: Site,
    routes: Iterable[WebRoute],
    door: Door,
    hosts: KnownHosts,
    lane: Lane,
    *,
    others: Sequence[Route] = (),
    ended: Ended = _nobody,
) -> ASGIApp:
    """The application that serves ``routes`` behind ``door``, each answered in ``lane``. ``others`` are routes of plain Starlette, behind the same door."""
    inside = Router(
        [*others, *(each for route in routes for each in _routes(site, lane, route))], redirect_slashes=False
    )
    return _Entrance(inside, door, hosts, ended)


class _Entrance:
    """What stands in front of every route."""

    def __init__(self, inside: ASGIApp, door: Door, hosts: KnownHosts, ended: Ended) -> None:
        self._inside, self._door, self._hosts, self._ended = inside, door, hosts, ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        exchange = scope["exchange"] = Exchange(HTTPConnection(scope))
        try:
            answer = self._answer(scope, exchange)
            await answer(scope, exchange.receiving(receive), exchange.sending(_with_headers(send)))
        finally:
            exchange.release()
            self._ended(exchange)

    def _answer(self, scope: Scope, exchange: Exchange) -> ASGIApp:
        connection = exchange.connection
        if not self._hosts.knows(connection.headers.get("host", "")):
            text = "symd: the request names another host than this one\n"
            return PlainTextResponse(text, 421, _last_words(connection))
        if scope["method"] == "OPTIONS" and "access-control-request-method" in connection.headers:
            return self._preflight(scope, connection)
        try:
            visitor, path, moved = self._door.enter(connection)
            exchange.visitor = visitor
            if "connection" in scope.get("state", {}):
                scope["state"]["connection"].let_in()
        except SymdError as error:
            exchange.failed(error)
            return _refusal(error, connection)
        scope["visitor"] = visitor
        scope["path"], scope["root_path"] = path, ""
        if moved:
            return RedirectResponse(moved, 303)
        return self._inside

    def _preflight(self, scope: Scope, connection: HTTPConnection) -> ASGIApp:
        """A preflight shows no token; the part of its path that is for the door is taken off, and what it is told is in the routes."""
        with suppress(SymdError):
            scope["path"] = self._door.enter(connection).path
        return self._inside


def _last_words(connection: HTTPConnection) -> dict[str, str]:
    """Headers of an answer to a stranger: the connection ends with it, unless a body would still come, whose sender would not hear it then."""
    has_body = connection.headers.get("content-length", "0") != "0" or "transfer-encoding" in connection.headers
    return {} if has_body else {**_CLOSE}


def _refusal(error: SymdError, connection: HTTPConnection) -> Response:
    reply = error_reply(error)
    assert isinstance(reply.body, bytes)  # noqa: S101 - errors are
    response = Response(reply.body, reply.status, {**reply.headers, **_last_words(connection)}, reply.content_type)
    if isinstance(error, Unauthenticated):
        response.headers["www-authenticate"] = CHALLENGE
    return response


def _with_headers(send: Send) -> Send:
    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            there = {name.lower() for name, _ in message["headers"]}
            new = ((name.encode(), value.encode()) for name, value in HEADERS.items())
            message["headers"] = [*message["headers"], *(each for each in new if each[0] not in there)]
        await send(message)

    return sending


def _routes(site: Site, lane: Lane, route: WebRoute) -> Iterator[Route]:
    yield Route(route.path, partial(_answered, site, lane, route), methods=[route.method])
    if route.origins:
        yield Route(route.path, partial(_preflight, route), methods=["OPTIONS"])


async def _preflight(route: WebRoute, request: Request) -> Response:
    """What a page of another origin may send (fetch.spec.whatwg.org, CORS protocol)."""
    allowed = _cross_origin(route, request)
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


def _cross_origin(route: WebRoute, request: Request) -> dict[str, str]:
    origin = request.headers.get("origin", "")
    if not origin or not {"*", origin} & set(route.origins):
        return {}
    return {"access-control-allow-origin": origin, "vary": "origin", "cross-origin-resource-policy": "cross-origin"}


def _check_origin(route: WebRoute, request: Request) -> None:
    """Raises PermissionDenied where a page of another origin wants something changed, or brought here, with what its visitor's browser shows by itself:
    told by Origin, or by Fetch Metadata (w3.org/TR/fetch-metadata) where a browser leaves that out. A link that is followed is no such thing."""
    origin = request.headers.get("origin", "")
    if {"*", origin} & set(route.origins):
        return
    of_others = bool(origin) and origin.partition("://")[2] != request.headers.get("host")
    if request.method in _SAFE:
        fetched = request.headers.get("sec-fetch-mode") != "navigate"
        of_others = fetched and request.headers.get("sec-fetch-site") in _OF_OTHERS
    if of_others:
        raise PermissionDenied("a page of another origin may not do that", where=origin[:200])


async def _answered(site: Site, lane: Lane, route: WebRoute, request: Request) -> Response:
    visitor: Visitor = request.scope["visitor"]
    exchange: Exchange = request.scope["exchange"]
    exchange.route = route
    try:
        visitor.check(route.right, request.scope["path"])
        _check_origin(route, request)
        body = await _body(request, route, lane, site.limits.message_seconds)
        asked = Asked(visitor, request.path_params, request.query_params, request.headers, body)
        del body
        reply = await _reply(site, lane, route, asked)
        del asked
        exchange.release()
        if isinstance(reply.body, bytes):
            exchange.hold(lane, visitor, len(reply.body))
    except ClientDisconnect:
        exchange.left()
        return Response(status_code=400)  # nobody hears it
    except SymdError as error:
        exchange.failed(error)
        reply = error_reply(error)
    except Exception as error:  # noqa: BLE001 - the last guard: logged whole, and the visitor gets its id
        defect = _defect(error)
        exchange.failed(defect)
        reply = error_reply(defect)
    more = _cross_origin(route, request)
    if isinstance(reply.body, bytes):
        return _whole(site, reply, reply.body, more)
    pieces = _pieces(lane, exchange, visitor, route, reply.body)
    return StreamingResponse(pieces, reply.status, {**reply.headers, **more}, reply.content_type)


async def _reply(site: Site, lane: Lane, route: WebRoute, asked: Asked) -> Reply:
    small = "gzip" in asked.headers.get("accept-encoding", "")
    try:
        return await lane.run(asked.visitor, route.effort, lambda: _compressed(route.handle(site, asked), small))
    except Lacking as lacking:
        if (fetch := site.fetch) is not None:
            await lane.run(asked.visitor, Effort.FETCH, partial(fetch, lacking.build_id))
    alone = site.by_itself()
    return await lane.run(asked.visitor, route.effort, lambda: _compressed(route.handle(alone, asked), small))


def _whole(site: Site, reply: Reply, body: bytes, more: Mapping[str, str]) -> Response:
    seconds = site.limits.write_seconds + len(body) / SLOWEST
    return _WholeResponse(body, reply.status, {**reply.headers, **more}, reply.content_type, seconds)


class _WholeResponse(Response):
    """An answer that leaves piece by piece, as the client takes it, so that what waits to be sent is what is counted as held. Who has not taken it within ``seconds``
    does not get the rest."""

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
    lane: Lane, exchange: Exchange, visitor: Visitor, route: WebRoute, pieces: Iterator[bytes]
) -> AsyncIterator[bytes]:
    try:
        while (piece := await lane.run(visitor, route.effort, lambda: next(pieces, None))) is not None:
            yield piece
    except SymdError as error:  # too late for another status: the answer ends in the middle
        exchange.failed(error)
        raise


async def _body(request: Request, route: WebRoute, lane: Lane, seconds: float) -> bytes:
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
                    exchange.hold(lane, request.scope["visitor"], len(taken) - counted)
                    counted = len(taken)
    except TimeoutError:
        raise DeadlineExceeded(
            f"the request's body did not come within {seconds:g} s",
            where=request.url.path,
            metadata={"limit": "message_seconds"},
        ) from None
    return bytes(taken)


def _too_long(route: WebRoute, request: Request) -> LimitExceeded:
    return LimitExceeded(f"the request's body has more than {route.body_limit} bytes", where=request.url.path)


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


def _defect(error: Exception) -> SymdError:
    number = uuid.uuid4().hex[:12]
    log.error("defect %s", number, exc_info=error)
    return SymdError(f"symd has a defect (id {number})", hint="its log has the details", metadata={"id": number})
