"""uvicorn, which serves HTTP on an event loop in a thread of its own, with its bounds on connections and heads. Whoever
lets strangers connect puts a reverse proxy in front (docs/security.md), which has more of them."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from symd.rpc.addresses import BACKLOG

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
