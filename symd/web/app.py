"""The application: host, door, route, lane, answer; and the headers that every answer has."""

from __future__ import annotations

import gzip
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from symd.errors import LimitExceeded, PermissionDenied, SymdError, Unauthenticated
from symd.web.hosts import KnownHosts
from symd.web.site import Asked, Lane, Reply, Site, WebRoute
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
_FAST: Final = 3
_SAFE: Final = frozenset(("GET", "HEAD"))

Ended = Callable[[Visitor | None, HTTPConnection, WebRoute | None, str], None]
"""Told of each request that has ended: who made it, how it came, the route, and ``OK`` or the reason of the error."""


def _nobody(_visitor: Visitor | None, _connection: HTTPConnection, _route: WebRoute | None, _outcome: str) -> None:
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
        [*others, *(each for route in routes for each in _routes(site, lane, route, ended))], redirect_slashes=False
    )
    return _Entrance(inside, door, hosts, ended)


class _Entrance:
    """What stands in front of every route."""

    def __init__(self, inside: ASGIApp, door: Door, hosts: KnownHosts, ended: Ended) -> None:
        self._inside, self._door, self._hosts, self._ended = inside, door, hosts, ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        await self._answer(scope)(scope, receive, _with_headers(send))

    def _answer(self, scope: Scope) -> ASGIApp:
        connection = HTTPConnection(scope)
        if not self._hosts.knows(connection.headers.get("host", "")):
            return PlainTextResponse("symd: the request names another host than this one\n", 421)
        if scope["method"] == "OPTIONS" and "access-control-request-method" in connection.headers:
            return self._preflight(scope, connection)
        try:
            visitor, path, moved = self._door.enter(connection)
        except SymdError as error:
            self._ended(None, connection, None, error.reason)
            return _refusal(error)
        if moved:
            return RedirectResponse(moved, 303)
        scope["visitor"] = visitor
        scope["path"], scope["root_path"] = path, ""
        return self._inside

    def _preflight(self, scope: Scope, connection: HTTPConnection) -> ASGIApp:
        """A preflight shows no token; the part of its path that is for the door is taken off, and what it is told is in the routes."""
        with suppress(SymdError):
            scope["path"] = self._door.enter(connection).path
        return self._inside


def _refusal(error: SymdError) -> Response:
    reply = error_reply(error)
    assert isinstance(reply.body, bytes)  # noqa: S101 - errors are
    response = Response(reply.body, reply.status, {**reply.headers}, reply.content_type)
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


def _routes(site: Site, lane: Lane, route: WebRoute, ended: Ended) -> Iterator[Route]:
    yield Route(route.path, partial(_answered, site, lane, route, ended), methods=[route.method])
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
    """Raises PermissionDenied where a page of another origin wants something changed with what its visitor's browser shows by itself."""
    origin = request.headers.get("origin", "")
    if not origin or request.method in _SAFE or {"*", origin} & set(route.origins):
        return
    if origin.partition("://")[2] != request.headers.get("host"):
        raise PermissionDenied("a page of another origin may not do that", where=origin[:200])


async def _answered(site: Site, lane: Lane, route: WebRoute, ended: Ended, request: Request) -> Response:
    visitor: Visitor = request.scope["visitor"]
    outcome = "CANCELLED"
    try:
        visitor.check(route.right, request.scope["path"])
        _check_origin(route, request)
        body = await _body(request, route.body_limit)
        asked = Asked(visitor, request.path_params, request.query_params, request.headers, body)
        small = "gzip" in request.headers.get("accept-encoding", "")
        reply = await lane.run(visitor, route.effort, lambda: _compressed(route.handle(site, asked), small))
        outcome = "OK"
    except SymdError as error:
        reply, outcome = error_reply(error), error.reason
    except Exception as error:  # noqa: BLE001 - the last guard: logged whole, and the visitor gets its id
        reply, outcome = error_reply(_defect(error)), SymdError.reason
    finally:
        ended(visitor, request, route, outcome)
    return _response(lane, visitor, route, reply, _cross_origin(route, request))


def _response(lane: Lane, visitor: Visitor, route: WebRoute, reply: Reply, more: Mapping[str, str]) -> Response:
    headers = {**reply.headers, **more}
    if isinstance(reply.body, bytes):
        return Response(reply.body, reply.status, headers, reply.content_type)
    return StreamingResponse(_pieces(lane, visitor, route, reply.body), reply.status, headers, reply.content_type)


async def _pieces(lane: Lane, visitor: Visitor, route: WebRoute, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    while (piece := await lane.run(visitor, route.effort, lambda: next(pieces, None))) is not None:
        yield piece


async def _body(request: Request, most: int) -> bytes:
    """The whole body. Raises LimitExceeded."""
    taken = bytearray()
    async for piece in request.stream():
        taken += piece
        if len(taken) > most:
            raise LimitExceeded(f"the request's body has more than {most} bytes", where=request.url.path)
    return bytes(taken)


def _compressed(reply: Reply, wanted: bool) -> Reply:
    if (
        not wanted
        or not isinstance(reply.body, bytes)
        or len(reply.body) < COMPRESSED_BYTES
        or reply.headers.get("content-encoding")
    ):
        return reply
    headers = {**reply.headers, "content-encoding": "gzip", "vary": "accept-encoding"}
    return reply._replace(body=gzip.compress(reply.body, _FAST), headers=headers)


def _defect(error: Exception) -> SymdError:
    number = uuid.uuid4().hex[:12]
    log.error("defect %s", number, exc_info=error)
    return SymdError(f"symd has a defect (id {number})", hint="its log has the details", metadata={"id": number})
