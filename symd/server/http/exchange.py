"""One request over HTTP from its head to the last byte of its answer: what was asked, what came of it, and what it holds meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from starlette.requests import HTTPConnection
from starlette.types import Receive, Send

from symd.errors import SymdError
from symd.server.http.principals import HttpPrincipal
from symd.server.http.site import HttpWorkQueue, WebRoute

CANCELLED = "CANCELLED"
"""The outcome of a request whose answer did not leave whole."""


@dataclass(slots=True)
class Exchange:
    """One request over HTTP and its answer. ``outcome`` is ``OK`` or the reason of an error, ``limit`` the limit
    that it names; ``status`` is 0 before there is an answer. ``received`` and ``sent`` are bytes of bodies.
    ``visitor`` is None where nobody was let in, ``route`` where there is none."""

    connection: HTTPConnection
    begun: float = field(default_factory=time.monotonic)
    visitor: HttpPrincipal | None = None
    route: WebRoute | None = None
    status: int = 0
    received: int = 0
    sent: int = 0
    limit: str = ""
    _reason: str = ""
    _is_whole: bool = False
    _held: list[Callable[[], None]] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        """What came of it."""
        if not self._is_whole:
            return self._reason or CANCELLED
        if self._reason:
            return self._reason
        return "OK" if self.status < HTTPStatus.BAD_REQUEST else HTTPStatus(self.status).name

    def failed(self, error: SymdError) -> None:
        """Note why it was refused."""
        self._reason, self.limit = error.reason, str(error.metadata.get("limit", ""))

    def left(self) -> None:
        """Note that the client has gone."""
        self._reason = CANCELLED

    def hold(self, work_queue: HttpWorkQueue, visitor: HttpPrincipal, size: int) -> None:
        """Count so many bytes as held until it has ended. Raises Busy."""
        self._held.append(work_queue.hold(visitor, size))

    def release(self) -> None:
        """Count nothing any more."""
        while self._held:
            self._held.pop()()

    def receiving(self, receive: Receive) -> Receive:
        """``receive`` with the bytes of the request's body counted."""

        async def counted() -> Any:
            message = await receive()
            self.received += len(message.get("body", b""))
            return message

        return counted

    def sending(self, send: Send) -> Send:
        """``send`` with the bytes of the answer's body counted, and its status noted."""

        async def counted(message: Any) -> None:
            await send(message)
            if message["type"] == "http.response.start":
                self.status = message["status"]
            else:
                self.sent += len(message.get("body", b""))
                self._is_whole = not message.get("more_body", False)

        return counted


Ended = Callable[[Exchange], None]
"""Called with each request that has ended."""
