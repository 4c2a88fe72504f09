"""Ends a call of several messages whose daemon says nothing for as long as it may, with gRPC and without an event loop or with one. A call of
one message and one answer needs none of this: gRPC bounds it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

from symd.errors import ServerUnavailable
from symd.rpc.retry import Attempt

T = TypeVar("T")


class StallTimer:
    """Watches over an attempt of several messages, and ends it where nothing moves for as long as it may be silent. Time in which nobody
    waits for the next message does not count."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._ended = threading.Event()
        self._waiting_since: float | None = None

    def requests(self, messages: Iterable[T]) -> Generator[T, None, None]:
        """The messages, each of which counts as something that moves when it is taken."""
        for message in messages:
            if self._waiting_since is not None:
                self._waiting_since = time.monotonic()
            yield message

    def answers(self, messages: Iterable[T], cancel: Callable[[], object]) -> Generator[T, None, None]:
        """The messages as they come; ``cancel`` ends the call."""
        with self.watched(cancel):
            for message in messages:
                self._waiting_since = None
                yield message
                self._waiting_since = time.monotonic()

    @contextmanager
    def watched(self, cancel: Callable[[], object]) -> Generator[None, None, None]:
        """Somebody waits now for the first answer, or the only one."""
        if self._attempt.silence is None:
            yield
            return
        self._waiting_since = time.monotonic()
        threading.Thread(target=self._watch, args=(cancel, self._attempt.silence), daemon=True).start()
        try:
            yield
        finally:
            self._ended.set()

    def _watch(self, cancel: Callable[[], object], allowed: float) -> None:
        while not self._ended.wait(allowed / 8):
            since = self._waiting_since
            if since is not None and time.monotonic() - since >= allowed:
                self._attempt.was_silent = True
                cancel()
                return


class AsyncSilence:
    """``StallTimer``, awaited."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._bound: asyncio.Timeout | None = None

    async def requests(self, messages: Iterable[T] | AsyncIterable[T]) -> AsyncGenerator[T, None]:
        """As ``StallTimer.requests``."""
        if isinstance(messages, AsyncIterable):
            async for message in messages:
                self._moved()
                yield message
        else:
            for message in messages:
                self._moved()
                yield message

    async def answers(self, messages: AsyncIterable[T]) -> AsyncGenerator[T, None]:
        """As ``StallTimer.answers``."""
        left = aiter(messages)
        while True:
            async with self.watched():
                try:
                    message = await anext(left)
                except StopAsyncIteration:
                    return
            yield message

    @asynccontextmanager
    async def watched(self) -> AsyncGenerator[None, None]:
        """Somebody waits now for the next answer: gRPC ends the call where the wait is broken off."""
        try:
            async with asyncio.timeout(self._attempt.silence) as self._bound:
                yield
        except TimeoutError:
            self._attempt.was_silent = True
            raise ServerUnavailable(f"the daemon said nothing for {self._attempt.silence:g} s") from None
        finally:
            self._bound = None

    def _moved(self) -> None:
        if self._bound is not None and self._attempt.silence is not None and not self._bound.expired():
            self._bound.reschedule(asyncio.get_running_loop().time() + self._attempt.silence)
