"""The application: the table of its routes, host and authentication in front of every route, and the headers that every
answer has; and uvicorn, which serves it on an event loop in a thread of its own, with its bounds on connections and
heads. Whoever lets strangers connect puts a reverse proxy in front (docs/security.md), which has more of them.

A stranger's page can give its own name the address of this machine (DNS rebinding), and its browser would then let it
read answers. So the name in a Host header has to be one of ours; an address written as numbers is nobody's name.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from html import escape
from ipaddress import ip_address
from typing import Any, Final

import h11
import uvicorn
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from symd.errors import SymdError, Unauthenticated
from symd.rpc.addresses import BACKLOG
from symd.server.http import debuginfod, listings, page, symbolication
from symd.server.http.exchange import Ended, Exchange, error_reply, served
from symd.server.http.principals import HttpAuthenticator
from symd.server.http.site import HttpWorkQueue, Site, WebRoute

ROUTES: Final[tuple[WebRoute, ...]] = (
    *debuginfod.ROUTES,
    *listings.ROUTES,
    *page.ROUTES,
    *symbolication.ROUTES,
)
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
    authenticator: HttpAuthenticator,
    hosts: KnownHosts,
    work_queue: HttpWorkQueue,
    *,
    others: Sequence[Route] = (),
    ended: Ended = _nobody,
) -> ASGIApp:
    """The application that serves ``ROUTES``, each answered in ``work_queue``, and ``others``, routes of plain
    Starlette, to whom ``authenticator`` lets in."""
    inside = Router(
        [*others, *(each for route in ROUTES for each in served(site, work_queue, route))], redirect_slashes=False
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


HEAD_BYTES: Final = 16 << 10
"""The longest incomplete head of a request: its line and its headers."""
SILENT_SECONDS: Final = 15
"""How long the head of a connection's first request may take, once it is encrypted, and that of the next one after an
answer. A TLS handshake has asyncio's own limit of a minute."""
CONNECTIONS: Final = 384
"""Connections open at a time; further ones are closed."""
GRACE_SECONDS: Final = 3
"""What requests that run get when the server ends."""


class HttpConnection(H11Protocol):
    """A connection of an HTTP client. It is closed at once where too many are open, and where the head of a request
    does not come within uvicorn's time between requests."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.app_state = {**self.app_state, "peercert": transport.get_extra_info("peercert")}
        if len(self.connections) > CONNECTIONS:
            transport.abort()
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def data_received(self, data: bytes) -> None:
        """Take what comes, as uvicorn does, except that the timer goes on until a request's head is complete."""
        self.conn.receive_data(data)
        self.handle_events()

    def send_400_response(self, msg: str) -> None:
        """Say that what came is no request. Where an answer has begun, for which uvicorn raises an error, nothing more
        can be said."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()


Context = Callable[[], ssl.SSLContext]


@contextmanager
def serving(app: ASGIApp, listener: socket.socket, tls: Context | None = None) -> Iterator[Callable[[], int]]:
    """Serve ``app`` at the bound socket while it lasts; ``tls`` gives the context of each new connection. Gives what
    says how many connections are open."""
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=HttpConnection,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level=logging.CRITICAL,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=CONNECTIONS + 1,  # requests whose clients have left count, too
        backlog=BACKLOG,
        timeout_keep_alive=SILENT_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        h11_max_incomplete_event_size=HEAD_BYTES,
    )
    config.load()
    if tls is not None:
        config.ssl = _newest(tls)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])), name="symd-web", daemon=True)
    thread.start()
    try:
        yield lambda: len(server.server_state.connections)
    finally:
        server.should_exit = True
        thread.join(GRACE_SECONDS * 2)


def _newest(tls: Context) -> ssl.SSLContext:
    """A context that gives way to the newest one at each handshake: certificates change while a server runs."""

    def choose(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = tls()

    context = tls()
    context.sni_callback = choose  # called for clients that send no name, too
    return context
