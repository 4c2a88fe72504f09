"""One call as its handler sees it: who asks, how long they wait, and whether they still do. It is symd's own, so that
handlers know nothing of the server underneath, and may be used from any thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import count
from typing import Any

from symd.server.config import Right

_NUMBERS = count(1)


def next_number() -> int:
    """The id of the next call in this daemon's log."""
    return next(_NUMBERS)


class CallEnded(Exception):
    """Raised in a handler's thread when it asks for a message or sends one and the call has ended."""


class Call:
    """One call as its handler sees it; ``seconds`` are left until its deadline, None if it has none."""

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
        "loop",
        "method",
        "module",
        "number",
        "peer",
        "received",
        "recheck_access",
        "right",
        "sent",
        "span",
        "subject",
        "tables",
    )

    def __init__(self, method: str, right: Right, peer: str, seconds: float | None, number: int = 0) -> None:
        self.number = number
        """The call's id in this daemon's log."""
        self.method = method
        """The full name, such as "symd.v1.SymbolService.Symbolize"."""
        self.right = right
        """What the caller needs to make the call."""
        self.peer = peer
        """Where the call comes from, as gRPC names it."""
        self.client = peer
        """Whose share of threads and memory the call uses: the caller's name, or ``peer`` where the caller has none."""
        self.caller = ""
        """Who makes the call; "" until that is known."""
        self.is_owner = False
        """Whether that is the daemon's own user."""
        self.recheck_access: Callable[[Call], None] | None = None
        """Raises where the caller has lost the right to the call since it began; None where that cannot happen."""
        self.begun = time.monotonic()
        self.module = ""
        """The module that is asked about."""
        self.count = 0
        """How many addresses are asked about."""
        self.subject = ""
        """What the call changes: a handler that changes something sets it, for the audit log."""
        self.received = self.sent = 0
        """Bytes of messages."""
        self.index_was_open: bool | None = None
        """Whether a question about few addresses was answered on the event loop, from an open index; None for other
        calls."""
        self.ending: tuple[str, Mapping[str, str]] | None = None
        """The reason and metadata of the error that ended the call while the daemon waited for its client."""
        self.loop: asyncio.AbstractEventLoop | None = None
        """The event loop of a stream, which a thread of its own works for."""
        self.tables: set[bytes] = set()
        """Names of the tables of locations that the call's responses have brought."""
        self.span: Any = None
        """The call's span, where spans are made."""
        self.in_span: Callable[[], AbstractContextManager[Any]] = nullcontext
        """A context in which spans that begin in this thread become children of ``span``."""
        self._deadline = None if seconds is None else self.begun + seconds
        self._ended = False
        self._callbacks: list[Callable[[], object]] = []
        self._lock = threading.Lock()

    def time_remaining(self) -> float | None:
        """Seconds until nobody waits any more; None where the caller waits as long as it takes."""
        return None if self._deadline is None else max(self._deadline - time.monotonic(), 0.0)

    def is_active(self) -> bool:
        """Whether somebody still waits for the answer."""
        return not self._ended

    def check_let_in(self) -> None:
        """Raises Unauthenticated or PermissionDenied where a token was revoked, or a right taken away, since the call
        began."""
        if self.recheck_access is not None:
            self.recheck_access(self)

    def add_callback(self, callback: Callable[[], object]) -> bool:
        """Let ``callback`` be called when the call ends, on the event loop: it must not wait. False: it has ended
        already."""
        with self._lock:
            if not self._ended:
                self._callbacks.append(callback)
            return not self._ended

    def remove_callback(self, callback: Callable[[], object]) -> None:
        """Let ``callback`` not be called any more, if it still would be."""
        with self._lock, suppress(ValueError):
            self._callbacks.remove(callback)

    def end(self) -> None:
        """Say that the call has ended. Saying it again changes nothing."""
        with self._lock:
            self._ended = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
