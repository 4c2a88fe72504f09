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

from symd.server.http.bound_socket import BACKLOG
from symd.server.http.connections import HEAD_BYTES, SILENT_SECONDS, STRANGERS, VISITORS, HttpConnections, of

GRACE_SECONDS: Final = 3
"""What requests that run get when the server ends."""

Context = Callable[[], ssl.SSLContext]


@contextmanager
def serving(
    app: ASGIApp, listener: socket.socket, tls: Context | None = None, connections: HttpConnections | None = None
) -> Iterator[None]:
    """Serve ``app`` at the bound socket while it lasts; ``tls`` gives the context of each new connection, ``connections`` are told of each."""
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=of(HttpConnections() if connections is None else connections),
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
