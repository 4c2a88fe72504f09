"""Serving one visitor: a module or a few at a free port of loopback, behind a secret path, until nobody looks any
more."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from symd.errors import FailedPrecondition
from symd.rpc.addresses import bound, is_loopback, parsed
from symd.server.http.app import KnownHosts, build_app, serving
from symd.server.http.principals import HttpPrincipal, SecretPathAuth
from symd.server.http.site import CostClass, Site

Result = TypeVar("Result")

THREADS: Final = 4
ADDRESS: Final = "127.0.0.1:0"
BEAT_SECONDS: Final = 2.0
"""How often a page that looks is told that the server is there, by which a page that has gone is noticed."""
AWAY_SECONDS: Final = 4.0
"""How long nobody may look before the view ends: loading a page again takes a moment."""


class Threads:
    """A work queue for one visitor: a few threads."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, "symd-view")

    async def run(
        self, _visitor: HttpPrincipal, _effort: CostClass, work: Callable[[], Result], *, repeatable: bool = False
    ) -> Result:
        del repeatable  # whoever looks waits for nobody else
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def hold(self, _visitor: HttpPrincipal, _size: int) -> Callable[[], None]:
        """Nothing is counted: who looks is whoever started it."""
        return lambda: None

    def close(self) -> None:
        """Begin nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class Presence:
    """Whether somebody looks: each page keeps one answer open, and when the last has gone for a while ``gone`` is
    set."""

    def __init__(self, away_seconds: float = AWAY_SECONDS) -> None:
        self.gone = threading.Event()
        self._away_seconds = away_seconds
        self._looking = 0
        self._last_left = 0.0
        self._lock = threading.Lock()

    def route(self) -> Route:
        """The answer that a page keeps open (server-sent events, html.spec.whatwg.org)."""

        async def present(_request: Request) -> StreamingResponse:
            return StreamingResponse(self._beats(), media_type="text/event-stream")

        return Route("/api/presence", present)

    async def _beats(self) -> AsyncIterator[bytes]:
        with self._lock:
            self._looking += 1
        try:
            while True:
                yield b": here\n\n"
                await asyncio.sleep(BEAT_SECONDS)
        finally:
            self._note_left()

    def _note_left(self) -> None:
        with self._lock:
            self._looking -= 1
            self._last_left = time.monotonic()
            if not self._looking:
                timer = threading.Timer(self._away_seconds, self._look)
                timer.daemon = True
                timer.start()

    def _look(self) -> None:
        with self._lock:
            if not self._looking and time.monotonic() - self._last_left >= self._away_seconds * 0.99:
                self.gone.set()


class View(NamedTuple):
    """What is served: ``url`` for people, ``invitation`` for a browser that is started, which works once."""

    url: str
    invitation: str
    presence: Presence


@contextmanager
def viewed(make_site: Callable[[Presence], Site], address: str = ADDRESS) -> Iterator[View]:
    """Serve a site while it lasts; ``make_site`` is given who looks. Raises InvalidInput and
    FailedPrecondition for an address that is not loopback, or that cannot be had."""
    parsed(address)
    if not is_loopback(address):
        raise FailedPrecondition(
            "a view is for this machine alone", where=address, hint="symd serve --http serves others"
        )
    work_queue = Threads()
    authenticator, presence = SecretPathAuth("symd view"), Presence()
    listener, host, port = bound(address, "--address")
    try:
        app = build_app(make_site(presence), authenticator, KnownHosts(), work_queue, others=(presence.route(),))
        with serving(app, listener):
            start = f"http://{host}:{port}"
            yield View(f"{start}{authenticator.path}", f"{start}{authenticator.invitation()}", presence)
    finally:
        listener.close()
        work_queue.close()
