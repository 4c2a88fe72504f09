"""What a client says in a watch, however often its call is made again: what to watch, the breakpoints whose changes the
daemon has acknowledged, and, once more, the changes that it has not."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

from symd.model.breakpoints import Breakpoint, LocationSpec
from symd.model.watches import BreakpointChange, ChangeAcknowledged, WatchEvent
from symd.rpc.wire.watches import EventReader, WatchRequest, to_change, to_start


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
