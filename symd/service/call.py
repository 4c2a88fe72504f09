"""One call as its handler sees it: who asks, how long they wait, and whether they still do. It is symd's own, so that handlers
know nothing of the server underneath, and may be used from any thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from typing import Any

_NUMBERS = count(1)


def next_number() -> int:
    """The id of the next call in this daemon's log."""
    return next(_NUMBERS)


class CallEnded(Exception):
    """Raised in a handler's thread when it asks for a message or sends one and the call has ended."""


class Call:
    """``method`` is the full name, ``peer`` is where the call comes from. ``seconds`` are left; None: no deadline.

    ``client`` is whose turns it takes and whose share it uses, ``caller`` who makes it ("" until that is known). ``subject`` is
    what a handler that changes something says of the thing. ``module`` and ``count`` are what was asked about and how many
    addresses, ``received`` and ``sent`` bytes of messages; ``index_was_open`` whether a few addresses were answered at once, None
    where that was not asked. ``number`` is the call's id in this daemon's log, ``ending`` the reason and metadata of
    the error that it was ended with while its client was waited for. ``still_let_in`` raises where who makes it may do so no more,
    which a stream asks at each message; None where that cannot change. ``span`` is its span where there are any, and ``in_span`` makes
    spans that begin meanwhile, in the same thread, ones below it.
    """

    __slots__ = (
        "_callbacks",
        "_deadline",
        "_ended",
        "_lock",
        "begun",
        "caller",
        "client",
        "count",
        "ending",
        "in_span",
        "index_was_open",
        "is_owner",
        "method",
        "module",
        "number",
        "peer",
        "received",
        "sent",
        "span",
        "still_let_in",
        "subject",
    )

    def __init__(self, method: str, peer: str, seconds: float | None, number: int = 0) -> None:
        self.number = number
        self.count = self.received = self.sent = 0
        self.index_was_open: bool | None = None
        self.ending: tuple[str, Mapping[str, str]] | None = None
        self.span: Any = None
        self.in_span: Callable[[], AbstractContextManager[Any]] = nullcontext
        self.still_let_in: Callable[[Call], None] | None = None
        self.method = method
        self.client = self.peer = peer
        self.caller = self.subject = self.module = ""
        self.is_owner = False
        self.begun = time.monotonic()
        self._deadline = None if seconds is None else self.begun + seconds
        self._ended = False
        self._callbacks: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def time_remaining(self) -> float | None:
        """Seconds until nobody waits any more; None where the caller waits as long as it takes."""
        return None if self._deadline is None else max(self._deadline - time.monotonic(), 0.0)

    def is_active(self) -> bool:
        """Whether somebody still waits for the answer."""
        return not self._ended

    def check_let_in(self) -> None:
        """Raises Unauthenticated or PermissionDenied where a token was revoked, or a right taken away, since the call began."""
        if self.still_let_in is not None:
            self.still_let_in(self)

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """Let ``callback`` be called when the call ends, on the event loop: it must not wait. False: it has ended already."""
        with self._lock:
            if not self._ended:
                self._callbacks.append(callback)
            return not self._ended

    def end(self) -> None:
        """Say that the call has ended. Saying it again changes nothing."""
        with self._lock:
            self._ended = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
