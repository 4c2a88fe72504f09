"""Connections over HTTP, each bounded: how many there are, how long one may be silent, how slowly it may take what is
sent to it; and uvicorn, which serves them on an event loop in a thread of its own.

The process itself may be stopped or suspended for a while, which is no fault of the client's: what came, or could be
taken, in that time is looked at before a client is found late. After SIGCONT the event loop may look at its clock
first.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Final

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from symd.errors import Busy
from symd.rpc.addresses import BACKLOG

LOOK_SECONDS: Final = 1.0
"""How long is looked, at the end, for what has come already."""


class ClientTimer:
    """Calls ``over`` when ``seconds`` are over, and ``LOOK_SECONDS`` more, or as many as the process was late to see
    that: no more than ``seconds``, with which somebody begins anew."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, over: Callable[[], None]) -> None:
        self._loop = loop
        self._seconds = seconds
        self._end = loop.time() + seconds
        self._over = over
        self._timer = loop.call_at(self._end, self._look)

    def cancel(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        late = self._loop.time() - self._end
        self._timer = self._loop.call_later(max(LOOK_SECONDS, min(late, self._seconds)), self._over)


@asynccontextmanager
async def client_time(seconds: float) -> AsyncIterator[None]:
    """A bound on the time of a client's part of a request, as ``asyncio.timeout`` sets one, kept by a
    ``ClientTimer``. Raises TimeoutError."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as bound:
        timer = ClientTimer(loop, seconds, lambda: bound.reschedule(loop.time()))
        try:
            yield
        finally:
            timer.cancel()


HEAD_BYTES: Final = 16 << 10
"""The longest head of a request: its line and its headers."""
SILENT_SECONDS: Final = 15.0
"""How long a connection may take to send the head of a request, encryption included, and then that of the next one."""
STALLED_SECONDS: Final = 30.0
"""How long its other end may take nothing of what is sent to it."""
UNREAD_BYTES: Final = 32 << 20
"""Bytes of a body that are let pass when the request has been answered without them: who is cut off while sending does
not hear why."""
CHUNKS: Final = 1024
"""Chunks of a body that may be as small as they like. To read one takes as long as to read many bytes, and meanwhile
nobody else is served."""
CHUNK_BYTES: Final = 256
"""Bytes that the chunks beyond those have at least, on average."""
STRANGERS: Final = 128
"""Connections on which nobody has been let in yet; beyond, the oldest of the address that has most is closed."""
VISITORS: Final = 256
"""Connections on which somebody was let in; further ones are refused."""


class HttpConnections:
    """The connections of one server. To be used on its event loop."""

    def __init__(self) -> None:
        self.closed: Callable[[str], object] = lambda _bound: None
        """Called for each connection that is closed before its end, with the bound that closed it."""
        self._strangers: dict[HttpConnection, None] = {}
        self._visitors: set[HttpConnection] = set()

    def __len__(self) -> int:
        return len(self._strangers) + len(self._visitors)

    def came(self, connection: HttpConnection) -> None:
        """Note a new one."""
        self._strangers[connection] = None
        if len(self._strangers) > STRANGERS:
            counts = Counter(each.address for each in self._strangers)
            (most, _), *_ = counts.most_common(1)
            next(each for each in self._strangers if each.address == most).close("unknown_connections")

    def let_in(self, connection: HttpConnection) -> None:
        """Note that somebody was let in on it. Raises Busy where that is one too many."""
        if connection not in self._strangers:
            return
        if len(self._visitors) >= VISITORS:
            raise Busy(
                f"{VISITORS} connections are open already",
                hint="use one connection for several requests",
                metadata={"limit": "http_connections", "value": str(VISITORS)},
            )
        del self._strangers[connection]
        self._visitors.add(connection)

    def gone(self, connection: HttpConnection) -> None:
        """Forget one."""
        self._strangers.pop(connection, None)
        self._visitors.discard(connection)


class _Reading(h11.Connection):
    """What comes on a connection. h11 by itself bounds a head only while it is incomplete: one that came at once could
    have any length; and chunks not at all."""

    problem = ""
    """Why the last event was refused, where that was here."""
    _chunks = 0
    _bytes = 0

    def next_event(self) -> Any:
        if self.their_state is not h11.IDLE:
            event = super().next_event()
            if isinstance(event, h11.Data):
                self._check_chunk(event)
            return event
        before = len(self.trailing_data[0])
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._chunks = self._bytes = 0
            if before - len(self.trailing_data[0]) > HEAD_BYTES:
                raise self._refused(f"the head of the request is longer than {HEAD_BYTES} bytes")
        return event

    def _check_chunk(self, data: h11.Data) -> None:
        """Raises RemoteProtocolError."""
        self._chunks += data.chunk_start
        self._bytes += len(data.data)
        if self._chunks > CHUNKS + self._bytes // CHUNK_BYTES:
            raise self._refused(
                f"the body comes in chunks of less than {CHUNK_BYTES} bytes, more than {CHUNKS} of them"
            )

    def _refused(self, problem: str) -> h11.RemoteProtocolError:
        self.problem = problem
        return h11.RemoteProtocolError(problem)


class HttpConnection(H11Protocol):
    """A connection of an HTTP client. Between the end of an answer and the head of the next request it has
    ``SILENT_SECONDS``, however many bytes come."""

    bounds: HttpConnections
    """The connections of the server, with their bounds."""
    conn: _Reading
    address: str = ""
    _silent: ClientTimer | None = None
    _stalled: ClientTimer | None = None
    _unread = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.conn = _Reading(h11.SERVER, HEAD_BYTES)
        self.address = str(self.client[0]) if self.client else ""
        self.app_state = {**self.app_state, "peercert": transport.get_extra_info("peercert"), "connection": self}
        self.bounds.came(self)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self.bounds.gone(self)
        self._quiet()
        self._resume()
        super().connection_lost(exc)

    def let_in(self) -> None:
        """Note that somebody was let in here. Raises Busy."""
        self.bounds.let_in(self)

    def data_received(self, data: bytes) -> None:
        awaited = self._awaits_head()
        super().data_received(data)
        if not self._awaits_head():
            self._quiet()
        elif self._silent is None:
            self._await_head()
        elif awaited and self.cycle is not None and self.cycle.more_body:
            self._unread += len(data)
            if self._unread > UNREAD_BYTES:
                self.close("unread_bytes")

    def send_400_response(self, msg: str) -> None:
        """Say that what came is no request, unless an answer has begun: then nothing more can be said."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(self.conn.problem or msg)
        else:
            self.transport.close()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._quiet()
        if self._awaits_head():
            self._await_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = ClientTimer(self.loop, STALLED_SECONDS, partial(self.close, "stalled_seconds"))

    def resume_writing(self) -> None:
        self._resume()
        super().resume_writing()

    def close(self, bound: str) -> None:
        """Close it at once, because it passed ``bound``."""
        if not self.transport.is_closing():
            self.bounds.closed(bound)
        self.bounds.gone(self)
        self.transport.abort()

    def _awaits_head(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _await_head(self) -> None:
        self._unread = 0
        self._silent = ClientTimer(self.loop, SILENT_SECONDS, partial(self.close, "silent_seconds"))

    def _quiet(self) -> None:
        if self._silent is not None:
            self._silent.cancel()
        self._silent = None

    def _resume(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
        self._stalled = None


def of(bounds: HttpConnections) -> type[HttpConnection]:
    """The class whose connections are among ``bounds``, as uvicorn takes it."""
    return type("BoundConnection", (HttpConnection,), {"bounds": bounds})


GRACE_SECONDS: Final = 3
"""What requests that run get when the server ends."""

Context = Callable[[], ssl.SSLContext]


@contextmanager
def serving(
    app: ASGIApp, listener: socket.socket, tls: Context | None = None, connections: HttpConnections | None = None
) -> Iterator[None]:
    """Serve ``app`` at the bound socket while it lasts; ``tls`` gives the context of each new connection,
    ``connections`` are told of each."""
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
