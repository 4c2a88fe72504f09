"""The application: host and authentication in front of every route, and the headers that every answer has.

A stranger's page can give its own name the address of this machine (DNS rebinding), and its browser would then let it
read answers. So the name in a Host header has to be one of ours; an address written as numbers is nobody's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from html import escape
from ipaddress import ip_address
from typing import Any, Final

from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from symd.errors import SymdError, Unauthenticated
from symd.server.http.exchange import Ended, Exchange, error_reply, served
from symd.server.http.principals import HttpAuthenticator
from symd.server.http.site import HttpWorkQueue, Site, WebRoute

LOCAL: Final = frozenset(("localhost",))


class KnownHosts:
    """The names by which a request may call this server. ``names`` are host names, without ports, by which this
    server may be called, besides addresses and ``localhost``."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = LOCAL | {name.lower().rstrip(".") for name in names}

    def knows(self, header: str) -> bool:
        """Whether a Host header ("HOST" or "HOST:PORT", RFC 9110, 7.2) names this server."""
        host = host_of(header)
        return host is not None and (host in self._names or _is_address(host))


def host_of(header: str) -> str | None:
    """The host in a Host header, in lower case and without brackets; None where there is none."""
    text = header.strip().lower()
    if text.startswith("["):
        inside, bracket, port = text[1:].partition("]")
        return inside if bracket and _is_port(port) else None
    host, colon, port = text.partition(":")
    return host.rstrip(".") if host and _is_port(colon + port) else None


def _is_port(text: str) -> bool:
    return not text or (text.startswith(":") and text[1:].isdecimal() and text.isascii())


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""What browsers are told with every answer: nothing of other hosts is loaded, nobody frames the page or learns its
address. There are no cookies."""
_LINE: Final = '<!doctype html><html lang="en"><meta charset="utf-8"><title>symd</title><p>{}</p></html>\n'
_CLOSE: Final = {"connection": "close"}


def _nobody(_exchange: Exchange) -> None:
    """The default: nobody is told."""


def build_app(
    site: Site,
    routes: Iterable[WebRoute],
    authenticator: HttpAuthenticator,
    hosts: KnownHosts,
    work_queue: HttpWorkQueue,
    *,
    others: Sequence[Route] = (),
    ended: Ended = _nobody,
) -> ASGIApp:
    """The application that serves ``routes``, each answered in ``work_queue``, and ``others``, routes of plain
    Starlette, to whom ``authenticator`` lets in."""
    inside = Router(
        [*others, *(each for route in routes for each in served(site, work_queue, route))], redirect_slashes=False
    )
    return _Entrance(inside, authenticator, hosts, ended)


class _Entrance:
    """What is in front of every route."""

    def __init__(self, inside: ASGIApp, authenticator: HttpAuthenticator, hosts: KnownHosts, ended: Ended) -> None:
        self._inside, self._authenticator, self._hosts, self._ended = inside, authenticator, hosts, ended

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
            visitor, path, moved = self._authenticator.enter(connection)
            exchange.visitor = visitor
        except SymdError as error:
            exchange.failed(error)
            return _refusal(error, connection, self._authenticator.challenge)
        scope["visitor"] = visitor
        scope["path"], scope["root_path"] = path, ""
        if moved:
            return RedirectResponse(moved, 303)
        return self._inside

    def _preflight(self, scope: Scope, connection: HTTPConnection) -> ASGIApp:
        """A preflight shows no token; the part of its path that lets the caller in is taken off, and what it is told is
        in the routes."""
        with suppress(SymdError):
            scope["path"] = self._authenticator.enter(connection).path
        return self._inside


def _last_words(connection: HTTPConnection) -> dict[str, str]:
    """Headers of an answer to a stranger: the connection ends with it, unless a body would still come, whose sender
    would not hear it then."""
    has_body = connection.headers.get("content-length", "0") != "0" or "transfer-encoding" in connection.headers
    return {} if has_body else {**_CLOSE}


def _refusal(error: SymdError, connection: HTTPConnection, challenge: str) -> Response:
    """The error as JSON, or for a browser that wants a page as a line of HTML."""
    reply = error_reply(error)
    assert isinstance(reply.body, bytes)  # noqa: S101 - errors are
    body, content_type = reply.body, reply.content_type
    if "text/html" in connection.headers.get("accept", ""):
        text = escape(f"symd: {error.message}{f': {error.hint}' if error.hint else ''}.")
        body, content_type = _LINE.format(text).encode(), "text/html; charset=utf-8"
    response = Response(body, reply.status, {**reply.headers, **_last_words(connection)}, content_type)
    if isinstance(error, Unauthenticated) and challenge:
        response.headers["www-authenticate"] = challenge
    return response


def _with_headers(send: Send) -> Send:
    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            there = {name.lower() for name, _ in message["headers"]}
            new = ((name.encode(), value.encode()) for name, value in HEADERS.items())
            message["headers"] = [*message["headers"], *(each for each in new if each[0] not in there)]
        await send(message)

    return sending
