"""Threads by kind of work, so that as much as there may be of one kind never holds up another: a lane of each.

Within a lane clients take turns: whoever has many calls waiting is served one of them, then others get in between.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Mapping
from enum import StrEnum
from queue import SimpleQueue
from typing import Any, TypeVar

from symd.config import Config
from symd.errors import Busy

Result = TypeVar("Result")

PATIENCE = 0.5
"""Seconds that a call waits for a free thread where other calls may keep theirs without an end, such as streams. It is refused
then; the short wait is for a thread whose call has just ended and that is not free yet."""


class Work(StrEnum):
    """The kinds of work; each value names the limit of how much there may be at a time."""

    QUESTION = "workers"
    BATCH = "batches"
    COLD = "cold_questions"
    UPLOAD = "uploads"
    FETCH = "fetches"
    STREAM = "streams"
    GRAB = "grabs"
    WATCH = "watches"


class Lane:
    """``size`` threads, and up to ``queue`` calls that wait for one, each at most ``patience`` seconds (None: as long as its
    caller). To be used on one event loop."""

    def __init__(self, work: Work, size: int, queue: int, patience: float | None = None) -> None:
        self._name = work
        self._size = size
        self._queue = queue
        self._patience = patience
        self._running = 0
        self._threads = 0
        self._tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @property
    def waiting(self) -> int:
        """Calls that wait for a thread."""
        return sum(map(len, self._waiting.values()))

    @property
    def running(self) -> int:
        """Threads at work."""
        return self._running

    async def run(self, client: str, work: Callable[[], Result]) -> Result:
        """What ``work`` returns or raises, in a thread of the lane. Raises ``Busy`` when too many wait already. Work that has
        begun goes on when nobody waits for it any more, and keeps its thread."""
        if self._running >= self._size:
            await self._turn(client)
        else:
            self._running += 1
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        if self._threads < self._running:
            self._threads += 1
            threading.Thread(target=self._serve, name=f"symd-{self._name}", daemon=True).start()
        self._tasks.put(lambda: self._attempt(loop, work, future))
        return await future

    def _serve(self) -> None:
        """A thread. It is a daemon of its process: one that waits for others does not keep the process from ending."""
        while True:
            self._tasks.get()()

    def _attempt(
        self, loop: asyncio.AbstractEventLoop, work: Callable[[], Result], future: asyncio.Future[Result]
    ) -> None:
        try:
            result, error = work(), None
        except BaseException as caught:  # noqa: BLE001 - raised again where it is waited for
            result, error = None, caught
        try:
            loop.call_soon_threadsafe(self._finish, future, result, error)
        except RuntimeError:
            return  # the loop has ended, and nobody waits

    def _finish(self, future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
        self._hand_on()
        if future.done():
            return  # cancelled
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    async def _turn(self, client: str) -> None:
        """Wait until the thread of a call that has ended is this one's."""
        if self.waiting >= self._queue:
            self._make_room(client)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(turn)
        try:
            async with asyncio.timeout(self._patience):
                await turn
        except (TimeoutError, asyncio.CancelledError) as error:
            if turn.cancelled():
                self._leave(client, turn)
            else:
                self._hand_on()
            if isinstance(error, TimeoutError):
                raise self._busy() from None
            raise

    def _make_room(self, client: str) -> None:
        """Let the last call of the client that has the most waiting give way, where that is not ``client`` itself."""
        longest = max(self._waiting.values(), key=len, default=None)
        if longest is None or len(longest) <= len(self._waiting.get(client, ())) + 1:
            raise self._busy()
        longest.pop().set_exception(self._busy())

    def _leave(self, client: str, turn: asyncio.Future[None]) -> None:
        queue = self._waiting.get(client)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._waiting[client]

    def _hand_on(self) -> None:
        """Give the thread that has become free to the client that has waited longest for a turn."""
        while self._waiting:
            client = next(iter(self._waiting))
            queue = self._waiting.pop(client)
            turn = queue.popleft()
            if queue:
                self._waiting[client] = queue
            if not turn.done():
                turn.set_result(None)
                return
        self._running -= 1

    def _busy(self) -> Busy:
        return Busy(
            f"{self._size} {_WHAT[self._name]} already",
            hint="try again when one of them has ended",
            metadata={"limit": str(self._name), "value": str(self._size)},
        )


_WHAT = {
    Work.QUESTION: "questions are answered",
    Work.BATCH: "large batches are answered",
    Work.COLD: "questions about modules that are not open yet are answered",
    Work.UPLOAD: "uploads are open",
    Work.FETCH: "modules are brought from other servers",
    Work.STREAM: "streams are open",
    Work.GRAB: "grabs run",
    Work.WATCH: "watches are open",
}

Lanes = Mapping[Work, Lane]


def lanes_of(config: Config) -> Lanes:
    """The lanes that the configuration asks for."""
    limits = config.limits
    queue = limits.queued_calls
    shared = {
        Work.QUESTION: config.workers,
        Work.BATCH: limits.batches,
        Work.COLD: limits.cold_questions,
        Work.FETCH: limits.fetches,
    }
    kept = {
        Work.UPLOAD: limits.uploads,
        Work.STREAM: config.streams,
        Work.GRAB: limits.grabs,
        Work.WATCH: config.watches,
    }
    return {
        **{work: Lane(work, size, queue) for work, size in shared.items()},
        **{work: Lane(work, size, queue, PATIENCE) for work, size in kept.items()},
    }
