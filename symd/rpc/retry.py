"""What a client makes again itself, because gRPC does not (what it does, the service config says):

* A call that a daemon refused without looking at it (REFUSED_STREAM: its limit calls_per_connection), whatever it does,
  and of a daemon alone too. gRPC 1.85 sends such a call again only where the connection ends.
* A stream whose daemon of several was lost. gRPC begins none anew of which a message has come, and some that it does
  begin anew never end. An answer says the same whichever daemon gives it, so that what was told already is passed over;
  a watch goes on after its resume token. ``WatchSession`` has what its client says, however often its call is made
  again: what to watch, the breakpoints whose changes the daemon has acknowledged, and, once more, those that it has
  not."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, Self

from symd.errors import CallRefused, ServerUnavailable, StoreUnavailable, SymdError, Unavailable
from symd.model.breakpoints import Breakpoint, LocationSpec
from symd.model.watches import BreakpointChange, ChangeAcknowledged, WatchEvent
from symd.rpc.channel import PAUSES
from symd.rpc.wire.breakpoints import EventReader, WatchRequest, to_change, to_start

WATCH_PAUSES: Final = (*PAUSES, 5.0, 5.0, 5.0, 5.0)
"""Seconds between the attempts of a watch, which outlives a store that is away for a moment, as a database is that is
started anew."""
REFUSALS: Final = 300
"""How often, in half a minute, a call without a timeout is sent again while a daemon refuses it unseen."""
_FIRST_REFUSED_PAUSE: Final = 0.005
_MAX_REFUSED_PAUSE: Final = 0.1
"""A call that has ended makes room for one that was refused: sooner than a daemon comes back."""
_ESTABLISHED_SECONDS: Final = 10.0
"""A watch that was open so long was not refused."""


class Attempts:
    """The attempts of one call, for ``timeout`` seconds in all; None: no end. ``pauses`` are those after which another
    one follows where the daemon was lost, none where gRPC sees to that or nobody may."""

    def __init__(self, timeout: float | None, pauses: tuple[float, ...] = (), *, is_watch: bool = False) -> None:
        self._end = None if timeout is None else time.monotonic() + timeout
        self._pauses = pauses
        self._retried = (ServerUnavailable, StoreUnavailable) if is_watch else (ServerUnavailable,)
        self._lost = self._refusals = 0

    def seconds_left(self) -> float | None:
        """The seconds until the timeout; None: no end."""
        return None if self._end is None else max(self._end - time.monotonic(), 0.0)

    def reset(self) -> None:
        """A daemon is there: those that are lost later count from the first."""
        self._lost = self._refusals = 0

    def next_delay(self, error: SymdError) -> float:
        """The seconds until the next attempt after one that failed with ``error``. Raises it where there is no next."""
        if isinstance(error, CallRefused) and (self._end is not None or self._refusals < REFUSALS):
            pause = min(_FIRST_REFUSED_PAUSE * 2.0 ** min(self._refusals, 10), _MAX_REFUSED_PAUSE)
            self._refusals += 1
        elif self._is_lost(error) and self._lost < len(self._pauses):
            pause = self._pauses[self._lost]
            self._lost += 1
        else:
            raise error from None
        if self._end is not None and time.monotonic() + pause >= self._end:
            raise error from None
        return pause

    def _is_lost(self, error: SymdError) -> bool:
        """Whether the daemon went, or ended the call without a word; an outside part that failed it is no better off
        elsewhere."""
        return isinstance(error, self._retried) or type(error) is Unavailable


class OpenWatch:
    """The call of a watch and those that go on after it; the first is made at once. ``begin`` makes one after a resume
    token, which each message has; it is empty where the watch could not go on from: what was told since the last is
    told again then. ``end`` ends what the client says."""

    def __init__(self, begin: Callable[[str], Any], end: Callable[[], None], resume_token: str) -> None:
        self.is_cancelled = False
        self._begin, self._end, self._token = begin, end, resume_token
        self._seen_since_token: set[bytes] = set()
        self._begun = time.monotonic()
        self._call = begin(resume_token)

    def cancel(self) -> None:
        """End it. From any thread."""
        self.is_cancelled = True
        self._end()
        self._call.cancel()

    def call(self) -> Any:
        """The call that goes on."""
        if self._call.done():
            self._begun = time.monotonic()
            self._call = self._begin(self._token)
        if self.is_cancelled:
            self._call.cancel()
        return self._call

    def is_new(self, message: Any) -> bool:
        """Whether the next message was not told yet."""
        if message.resume_token:
            self._token, self._seen_since_token = message.resume_token, set()
            return True
        name = hashlib.blake2b(message.SerializeToString(deterministic=True), digest_size=16).digest()
        if name in self._seen_since_token:
            return False
        self._seen_since_token.add(name)
        return True

    def was_established(self) -> bool:
        """Whether the call was open so long that it had its daemon, though nothing happened that it could tell."""
        return time.monotonic() - self._begun >= _ESTABLISHED_SECONDS


class WatchSession:
    """One watch of a client. Its messages to the daemon go through ``requests``, those that come are read by ``read``.
    Safe to use from several threads."""

    def __init__(
        self, breakpoints: Sequence[Breakpoint], contexts: Sequence[str], apis: Sequence[str], *, only_new: bool
    ) -> None:
        self._request = WatchRequest(breakpoints, contexts, apis, only_new, "")
        self._first = to_start(self._request)  # it says at once what is wrong
        self._watched = {each.id: each for each in breakpoints}
        self._pending: deque[BreakpointChange] = deque()
        self._places: dict[str, LocationSpec] = {each.id: each.where for each in breakpoints}
        self._lock = threading.Lock()
        self._requests = _Requests()
        self._reader = EventReader(self._places)

    def requests(self, resume_token: str) -> _Requests:
        """The messages of a call that goes on after ``resume_token``."""
        with self._lock:
            self._requests.end()
            self._requests = _Requests()
            self._reader = EventReader(self._places)
            start = replace(self._request, breakpoints=tuple(self._watched.values()), resume_token=resume_token)
            self._requests.put(to_start(start))
            for change in self._pending:
                self._requests.put(to_change(change))
            return self._requests

    def change(self, change: BreakpointChange) -> None:
        """Change the breakpoints. Raises ``BadQuery``."""
        message = to_change(change)
        with self._lock:
            self._places.update((each.id, each.where) for each in change.add)
            self._pending.append(change)
            self._requests.put(message)

    def read(self, message: Any) -> WatchEvent | None:
        """The event that a message ends; None where the next one goes on with it. Raises ``Malformed``."""
        event = self._reader.read(message)
        return self._acknowledge(event) if isinstance(event, ChangeAcknowledged) else event

    def _acknowledge(self, event: ChangeAcknowledged) -> ChangeAcknowledged:
        with self._lock:
            change = self._pending.popleft() if self._pending else BreakpointChange()
            added, removed = {each.id: each for each in change.add}, change.remove
            if event.failure is not None:
                added, removed = {}, ()
            for name in removed:
                self._watched.pop(name, None)
            self._watched |= added
            coming = {each.id: each for later in self._pending for each in later.add}
            for name in {*removed, *(each.id for each in change.add)}:
                known = coming.get(name) or self._watched.get(name)
                if known is None:
                    self._places.pop(name, None)
                else:
                    self._places[name] = known.where
            return replace(event, added=tuple(added), removed=removed)

    def end(self) -> None:
        """Say that nothing more is said."""
        self._requests.end()


class _Requests:
    """Messages as they come, for a call of gRPC's: an iterator for its thread, and an asynchronous one for its event
    loop."""

    def __init__(self) -> None:
        self._messages: deque[Any] = deque()
        self._changed = threading.Condition()
        self._ended = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken: asyncio.Event | None = None

    def put(self, message: Any) -> None:
        """Send a message."""
        with self._changed:
            self._messages.append(message)
            self._wake()

    def end(self) -> None:
        """Let the iterator end when all is sent."""
        with self._changed:
            self._ended = True
            self._wake()

    def _wake(self) -> None:
        self._changed.notify_all()
        if self._loop is not None and self._woken is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._woken.set)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        with self._changed:
            while not self._messages and not self._ended:
                self._changed.wait()
            if not self._messages:
                raise StopIteration
            return self._messages.popleft()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        while True:
            with self._changed:
                if self._messages:
                    return self._messages.popleft()
                if self._ended:
                    raise StopAsyncIteration
                self._loop, self._woken = asyncio.get_running_loop(), asyncio.Event()
                woken = self._woken
            await woken.wait()
