"""uvicorn on an event loop in a thread of its own, so that whoever starts and stops it is plain code in another thread."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from symd.errors import FailedPrecondition, InvalidInput
from symd.host_and_port import host_and_port
from symd.system_reason import system_reason
from symd.web.connections import HEAD_BYTES, SILENT_SECONDS, STRANGERS, VISITORS, Connections, of

BACKLOG: Final = 128
GRACE_SECONDS: Final = 3
"""What requests that run get when the server ends."""

Context = Callable[[], ssl.SSLContext]


@contextmanager
def serving(
    app: ASGIApp, listener: socket.socket, tls: Context | None = None, connections: Connections | None = None
) -> Iterator[None]:
    """Serve ``app`` at the bound socket while it lasts; ``tls`` gives the context of each new connection, ``connections`` are told of each."""
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=of(Connections() if connections is None else connections),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level=logging.CRITICAL,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=2 * (STRANGERS + VISITORS),  # never reached: connections are bounded by themselves
        backlog=BACKLOG,
        timeout_keep_alive=round(SILENT_SECONDS),
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
        yield
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


def parsed(address: str) -> tuple[str, int]:
    """The host and the port of ``HOST:PORT``. Raises InvalidInput."""
    named = host_and_port(address)
    if named is None:
        raise InvalidInput("not an address to listen at", where=address, hint="give HOST:PORT, such as 127.0.0.1:8080")
    return named


def bound(address: str, option: str) -> tuple[socket.socket, str, int]:
    """A socket that listens at ``HOST:PORT``, the host, and the port that it got. Raises InvalidInput and FailedPrecondition; ``option`` is
    what to give another address with."""
    host, port = parsed(address)
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            host.removeprefix("[").removesuffix("]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise FailedPrecondition(
            f"there is no such host: {system_reason(error)}", where=address, hint=f"choose another with {option}"
        ) from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise FailedPrecondition(
            f"cannot listen there: {system_reason(error)}", where=address, hint=f"choose another with {option}"
        ) from error
    return listener, host, listener.getsockname()[1]
