"""The daemon's HTTP side: it lets in whom gRPC lets in, its work is done in the same work queues, and it is told of in
the same logs."""

from __future__ import annotations

import asyncio
import socket
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from symd.engine.debuginfod_client import DebuginfodServers
from symd.errors import FailedPrecondition, SymdError, Unauthenticated, Unavailable
from symd.model.sources import SourceText
from symd.rpc.addresses import BACKLOG, bound, is_loopback, parsed
from symd.server.authentication import ANONYMOUS, Authenticator, ShownCredentials
from symd.server.call import Call, next_number
from symd.server.certificates import certified_name
from symd.server.config import Config, Right
from symd.server.http.app import KnownHosts, build_app, serving
from symd.server.http.colouring import ColouredApart
from symd.server.http.debuginfod import ModuleFetcher
from symd.server.http.exchange import Exchange
from symd.server.http.principals import Entered, HttpAuthenticator, HttpPrincipal, SecretPathAuth
from symd.server.http.site import CostClass, Site
from symd.server.listening import UNIX, locked_folder, own_folder_address, socket_path
from symd.server.logs import audit, log_request
from symd.server.metrics import HttpMetrics, Metrics
from symd.server.service_context import DiskSources
from symd.server.work_queues import Work
from symd.system.messages import os_error_text
from symd.system.private_files import bind_socket

if TYPE_CHECKING:
    from symd.server.server import Daemon

Result = TypeVar("Result")
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""What Prometheus' text format is called."""

_WORK: Final[Mapping[CostClass, Work]] = {
    CostClass.QUESTION: Work.COLD_QUESTION,
    CostClass.LARGE: Work.LARGE,
    CostClass.UPLOAD: Work.UPLOAD,
    CostClass.FETCH: Work.FETCH,
}


class ServedPage(NamedTuple):
    """Where the page is: ``address`` for logs, ``url`` for who starts the daemon, with the secret part where there is
    one. ``is_open``: whoever reaches it is let in."""

    address: str
    url: str
    is_open: bool


@contextmanager
def web_served(daemon: Daemon, config: Config, metrics: Metrics | None = None) -> Iterator[ServedPage]:
    """Serve HTTP at ``config.http`` while it lasts; ``metrics`` counts its requests.

    Raises InvalidInput for what is no address, FailedPrecondition for what would let strangers in, or where the system
    refuses.
    """
    authenticator = daemon.authenticator
    secret = _secret_path_auth(config)
    listener, host, port = bound(config.http, "--http")
    with ExitStack() as stack:
        stack.callback(listener.close)
        http_authenticator: HttpAuthenticator = secret or _DaemonAuthenticator(authenticator)
        fetch = (
            ModuleFetcher(daemon.engine, DebuginfodServers(config.debuginfod, config.limits))
            if config.debuginfod
            else None
        )
        counted = metrics.http() if metrics is not None else None
        sources = partial(_sources, daemon, config)
        colour = stack.enter_context(closing(ColouredApart()))
        site = Site(daemon.engine, sources, config.limits, contents=daemon.engine, fetch=fetch, colour=colour)
        names = KnownHosts((host, socket.gethostname(), *config.http_names))
        app = build_app(site, http_authenticator, names, _DaemonWorkQueue(daemon), ended=partial(_ended, counted))
        tls = authenticator.certificates.context if authenticator.certificates is not None else None
        connections = stack.enter_context(serving(app, listener, tls))
        if counted is not None:
            counted.watch(connections)
        address = f"{'https' if tls else 'http'}://{host}:{port}"
        yield ServedPage(address, address + (secret.path if secret else "/"), is_open=secret is None)


@contextmanager
def metrics_served(address: str, page: Callable[[], bytes], *, open_to_all: bool = False) -> Iterator[str]:
    """Serve ``page`` to anybody who connects to ``HOST:PORT`` or ``unix:PATH`` (mode 0600) while it lasts; the address.
    HOST is this machine's loopback, unless it is ``open_to_all``. PATH's folder is made where it is not there, and
    refused where others may change it, as that of the daemon's own socket is. Raises ``InvalidInput``,
    ``FailedPrecondition`` and ``Unavailable``."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        is_page = scope["path"] == "/metrics" and scope["method"] == "GET"
        reply = Response(page(), media_type=METRICS_TYPE) if is_page else Response(status_code=HTTPStatus.NOT_FOUND)
        await reply(scope, receive, send)

    with ExitStack() as stack:
        if address.startswith(UNIX):
            path = socket_path(address)
            listener, where = _bound_to_path(path, address), f"{UNIX}{path}"
            stack.callback(path.unlink, missing_ok=True)
        else:
            parsed(address)
            if not (open_to_all or is_loopback(address)):
                raise FailedPrecondition(
                    "other machines could read the metrics, and no password is asked for",
                    where=address,
                    hint="give 127.0.0.1:PORT or unix:PATH; --open-metrics for who wants it all the same",
                )
            listener, host, port = bound(address, "--metrics")
            where = f"{host}:{port}"
        stack.enter_context(closing(listener))
        stack.enter_context(serving(answer, listener))
        yield where


def _bound_to_path(path: Path, address: str) -> socket.socket:
    """Raises FailedPrecondition and Unavailable."""
    listener = socket.socket(socket.AF_UNIX)
    try:
        with locked_folder(path.parent, f"--metrics {own_folder_address(path)}"):
            if path.is_socket():
                path.unlink()
            bind_socket(listener, str(path))
            listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise FailedPrecondition(
            f"cannot tell metrics there: {os_error_text(error)}", where=address, hint="choose another with --metrics"
        ) from error
    except SymdError:
        listener.close()
        raise
    return listener


def _secret_path_auth(config: Config) -> SecretPathAuth | None:
    """The secret path of a server without options that say who is let in; None where tokens, TLS or ``--insecure`` say
    who comes in. Raises InvalidInput and FailedPrecondition."""
    listen, address = config.listen, config.http
    if listen.insecure or listen.tls_certificate is not None:
        return None
    parsed(address)
    if is_loopback(address):
        return None if listen.access is not None else SecretPathAuth("symd serve")
    raise FailedPrecondition(
        "no plain HTTP for other machines: what is asked and answered could be read on its way",
        where=address,
        hint="give --tls-cert and --tls-key, or listen at 127.0.0.1; --insecure for who wants it all the same",
    )


class _DaemonAuthenticator:
    """Tokens as the header "authorization: Bearer TOKEN", or as the password of a browser's question; certificates of
    clients."""

    challenge = 'Basic realm="symd", charset="UTF-8"'
    """A browser asks for the token as a password; the name is free (RFC 7617)."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator

    def enter(self, connection: HTTPConnection) -> Entered:
        """Raises Unauthenticated."""
        peer = _peer(connection)
        has_tokens = self._authenticator.listen.access is not None
        token = _token(connection.headers.get("authorization", "")) if has_tokens else None
        certificate = _certified(connection.scope.get("state", {}).get("peercert")) if token is None else None
        principal = self._authenticator.principal(ShownCredentials(peer, token, certificate))
        named = principal.name != ANONYMOUS
        share, budget = (principal.name, principal.name) if named else (peer, _address(connection))
        return Entered(HttpPrincipal(principal.name, principal.rights, share, budget), connection.scope["path"])


def _token(header: str) -> bytes | None:
    """The token of a Bearer header (RFC 6750), or the password of a Basic one (RFC 7617). Raises Unauthenticated."""
    scheme, _, content = header.partition(" ")
    if scheme.lower() == "bearer":
        return content.strip().encode()
    if scheme.lower() != "basic":
        return None
    try:
        _, _, password = b64decode(content.strip(), validate=True).partition(b":")
    except ValueError:
        raise Unauthenticated("the header authorization is not as RFC 7617 has it") from None
    return password


def _certified(certificate: Mapping[str, Any] | None) -> str | None:
    """``certificate`` is as ``ssl.SSLSocket.getpeercert`` has it."""
    if not certificate:
        return None
    names = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    return certified_name(names + [value for _, value in certificate.get("subjectAltName", ())])


def _address(connection: HTTPConnection) -> str:
    return connection.client.host if connection.client is not None else ""


def _peer(connection: HTTPConnection) -> str:
    """Where a request comes from, as gRPC names it."""
    client = connection.client
    if client is None:
        return "unknown"
    return f"ipv6:[{client.host}]:{client.port}" if ":" in client.host else f"ipv4:{client.host}:{client.port}"


class _DaemonWorkQueue:
    """The work queues of gRPC's calls, which live on another event loop."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    async def run(
        self, visitor: HttpPrincipal, effort: CostClass, work: Callable[[], Result], *, repeatable: bool = False
    ) -> Result:
        """Raises Busy, and Unavailable when the daemon ends."""
        asked = partial(self._without_waiting, work) if repeatable else work
        queue = self._daemon.work_queues[_WORK[effort]]
        try:
            waited = self._daemon.server.begin(queue.run(visitor.share, asked))
        except RuntimeError:
            raise Unavailable("the daemon is stopping", hint="ask again when it is back") from None
        return await asyncio.wrap_future(waited)

    def hold(self, visitor: HttpPrincipal, size: int) -> Callable[[], None]:
        """Count a request like gRPC's large messages. Raises Busy."""
        flight = self._daemon.flight
        return partial(flight.release, visitor.budget, flight.hold(visitor.budget, size))

    def _without_waiting(self, work: Callable[[], Result]) -> Result:
        with self._daemon.engine.without_waiting():
            return work()


def _sources(daemon: Daemon, config: Config, digest: str, files: tuple[str, ...], path: str | None) -> list[SourceText]:
    """What the module carries, and the files that this daemon was allowed to read."""
    on_disk = DiskSources(config)
    return [on_disk.completed(source) for source in daemon.engine.sources(digest, files, path)]


def _ended(counted: HttpMetrics | None, exchange: Exchange) -> None:
    route, visitor = exchange.route, exchange.visitor
    what = f"{route.method} {route.path}" if route is not None else "HTTP"
    right = route.right if route is not None else Right.READ
    call = Call(f"symd.http.{what}", right, _peer(exchange.connection), None, next_number())
    call.begun, call.received, call.sent = exchange.begun, exchange.received, exchange.sent
    call.caller = visitor.name if visitor is not None else ""
    # what strangers ask for may be the secret part with a slip in it
    call.subject = exchange.connection.scope["path"] if visitor is not None else ""
    call.end()
    audit(call, exchange.outcome)
    log_request(call, exchange.outcome)
    if counted is not None:
        seconds = time.monotonic() - exchange.begun
        counted.ended(what if route is not None else "", exchange.status, seconds, (exchange.received, exchange.sent))
        if exchange.outcome != "OK":
            counted.refused(exchange.outcome, exchange.limit)
