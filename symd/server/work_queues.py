"""A work queue for each kind of work, with a pool of threads of its own, so that no amount of one kind holds up
another.

A queue is fair among clients (round robin): a client with many waiting calls is served one of them, then each other
client gets one. Of the threads of some queues one client has a share at most. Work that waits for other work
(``Pending``) gives its thread back meanwhile. Batches together hold at most so many units of a weighted semaphore.

Calls, messages of a stream and requests of the page take their turn in the same queue. An open stream has a thread of
its own, which waits for messages and for its turn; the work for a message is done in the work queue
(``WorkQueue.run_for``).
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, suppress
from copy import copy
from enum import StrEnum
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from symd.api import Pending
from symd.errors import Busy
from symd.server.call import Call, CallEnded
from symd.server.config import Config
from symd.server.own_process import unpin
from symd.system.process.resources import MORE_THREADS


class WeightedSemaphore:
    """A semaphore of which each holder takes as many units as it needs: ``size`` units, which are given in the order
    in which they were asked for; who wants more than ``size`` gets them while nobody else has any, and fewer than
    ``least`` are not counted and not waited for. Safe to use from several threads."""

    def __init__(self, size: int, least: int = 0) -> None:
        self._size = size
        self._least = least
        self._held = 0
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()

    @contextmanager
    def acquired(self, units: int) -> Iterator[None]:
        """Wait until so many units are free, and hold them."""
        if units < self._least:
            yield
            return
        waiter = object()
        with self._changed:
            self._waiting.append(waiter)
            self._changed.wait_for(lambda: self._waiting[0] is waiter and self._fits(units))
            self._waiting.popleft()
            self._held += units
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._held -= units
                self._changed.notify_all()

    def _fits(self, units: int) -> bool:
        return not self._held or self._held + units <= self._size


Result = TypeVar("Result")
Item = TypeVar("Item")

FREE_THREAD_SECONDS = 0.5
"""How long a call waits for a free thread where other calls may keep theirs without an end, such as streams, before it
is refused: a thread whose call has just ended may not be free yet."""

QUEUED_CALLS = 1024
"""Calls of one kind that may wait for a thread."""
BATCHES = 2
"""Large batches answered at a time."""
LARGE_ANSWERS = 2
"""Listings made at a time, answers to GPU core dumps, texts of sources, code objects cut out of a module, and large
pages over HTTP; further ones wait."""
WRITES = 4
"""Changes of the catalogue made at a time, such as aliases, events and removals: they wait for its lock. Further ones
wait."""
UPLOADS = 16
"""Uploads open at a time."""
FETCHES = 4
"""Modules brought from debuginfod's servers at a time; further ones wait."""
GRABS = 4
"""Grabs from drivers at a time."""
COLD_QUESTIONS = 32
"""Questions answered at a time about modules whose index is not open ("cold"), so that it may have to be made first;
each takes a thread."""


class Work(StrEnum):
    """The kinds of work; each value names, in errors, how much there may be at a time."""

    QUESTION = "workers"
    BATCH = "batches"
    COLD_QUESTION = "cold_questions"
    LARGE = "large_answers"
    WRITE = "writes"
    UPLOAD = "uploads"
    FETCH = "fetches"
    STREAM = "streams"
    GRAB = "grabs"
    WATCH = "watches"


class _FairQueue:
    """Calls that wait, at most ``most`` of all clients together; the next one is taken from each client in turn.
    ``refusal`` makes the error of a call that there is no room for."""

    def __init__(self, most: int, refusal: Callable[[], Busy]) -> None:
        self._most = most
        self._refusal = refusal
        self._calls: dict[str, deque[asyncio.Future[None]]] = {}

    @property
    def length(self) -> int:
        """How many wait."""
        return sum(map(len, self._calls.values()))

    def put(self, client: str) -> asyncio.Future[None]:
        """Add a call: its future, done when it is taken. Raises ``Busy`` where there is no room; where another call is
        dropped to make some, that one's future raises it."""
        if self.length >= self._most:
            self._make_room(client)
        call: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._calls.setdefault(client, deque()).append(call)
        return call

    def remove(self, client: str, call: asyncio.Future[None]) -> None:
        """Remove a call, if it still waits."""
        calls = self._calls.get(client)
        if calls is not None and call in calls:
            calls.remove(call)
            if not calls:
                del self._calls[client]

    def take(self, is_allowed: Callable[[str], bool]) -> tuple[str, asyncio.Future[None]] | None:
        """The client, of those that are allowed, from which no call was taken for longest, and its first call; None
        where none waits."""
        while (client := next(filter(is_allowed, self._calls), None)) is not None:
            calls = self._calls.pop(client)
            call = calls.popleft()
            if calls:
                self._calls[client] = calls
            if not call.done():
                return client, call
        return None

    def _make_room(self, client: str) -> None:
        """Drop the last call of the client that has the most waiting, where that is not ``client`` itself."""
        longest = max(self._calls.values(), key=len, default=None)
        if longest is None or len(longest) <= len(self._calls.get(client, ())) + 1:
            raise self._refusal()
        last = longest.pop()
        if not last.done():
            last.set_exception(self._refusal())


class WorkQueue:
    """A queue of calls of one kind of work, with threads of its own: ``size`` threads, of which one client has
    ``share`` at most (None: all), and up to ``queue`` calls that wait for one, each at most ``wait_seconds`` (None:
    as long as its caller). To be used on one event loop."""

    def __init__(
        self, work: Work, size: int, queue: int, wait_seconds: float | None = None, share: int | None = None
    ) -> None:
        self._name = work
        self._size = size
        self._share = size if share is None else share
        self._wait_seconds = wait_seconds
        self._running: Counter[str] = Counter()
        self._threads = 0
        self._tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._waiting = _FairQueue(queue, self._busy)
        self._blocked = _FairQueue(queue, self._busy)
        """Calls that wait for other work, and take no thread meanwhile."""

    @property
    def waiting(self) -> int:
        """Calls that wait for a thread, or for other work before that."""
        return self._waiting.length + self._blocked.length

    @property
    def running(self) -> int:
        """Threads at work."""
        return self._running.total()

    async def run(self, client: str, work: Callable[[], Result]) -> Result:
        """What ``work`` returns or raises, in a thread of the work queue. Raises ``Busy`` when too many wait already.
        Work that has begun goes on when nobody waits for it any more, and keeps its thread; work that raises
        ``Pending`` is begun again when what it waits for has been made."""
        while True:
            try:
                return await self._run_once(client, work)
            except Pending as early:
                made = early.made
            await self._wait_until_made(client, made)

    def run_for(self, call: Call, work: Callable[[], Result]) -> Result:
        """What ``work`` returns or raises, in a thread of the work queue, for the own thread of a stream, which
        waits meanwhile. Raises ``Busy`` when too many wait already, and ``CallEnded`` where the call ends before."""

        def spanned() -> Result:
            with call.in_span():
                return work()

        assert call.loop is not None  # noqa: S101 - a stream has one
        waited = asyncio.run_coroutine_threadsafe(self.run(call.client, spanned), call.loop)
        if not call.add_callback(waited.cancel):
            waited.cancel()
        try:
            return waited.result()
        except CancelledError:
            raise CallEnded from None
        finally:
            call.remove_callback(waited.cancel)

    def each_for(self, call: Call, items: Iterable[Item]) -> Iterator[Item]:
        """The items, each made as ``run_for`` does, as long as the caller is there."""
        making = partial(next, iter(items), None)
        while call.is_active() and (item := self.run_for(call, making)) is not None:
            yield item

    async def _run_once(self, client: str, work: Callable[[], Result]) -> Result:
        if self.running >= self._size or not self._may_run(client):
            await self._wait_for_thread(client)
        else:
            self._running[client] += 1
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        if self._threads < self.running:
            self._start_thread(client)
        self._tasks.put(lambda: self._attempt(loop, client, work, future))
        return await future

    def _start_thread(self, client: str) -> None:
        """One more, for a call of this client, which has it reserved. Raises ``Busy`` where the system gives none."""
        try:
            threading.Thread(target=self._serve, name=f"symd-{self._name}", daemon=True).start()
        except RuntimeError:
            self._release_thread(client)
            raise _no_thread() from None
        self._threads += 1

    async def _wait_until_made(self, client: str, made: Future[None]) -> None:
        """Wait for other work. Raises its error, where that is one for all who wait."""
        loop = asyncio.get_running_loop()
        call = self._blocked.put(client)
        made.add_done_callback(lambda _: _on_loop(loop, _complete, call))
        try:
            await call
        finally:
            self._blocked.remove(client, call)
        late = made.exception()
        if late is not None:
            raise copy(late)

    def _may_run(self, client: str) -> bool:
        """Whether a client has less than its share of the threads."""
        return self._running[client] < self._share

    def _serve(self) -> None:
        """A thread. It is a daemon of its process: one that waits for others does not keep the process from ending."""
        unpin()
        while True:
            self._tasks.get()()

    def _attempt(
        self,
        loop: asyncio.AbstractEventLoop,
        client: str,
        work: Callable[[], Result],
        future: asyncio.Future[Result],
    ) -> None:
        try:
            result, error = work(), None
        except BaseException as caught:  # noqa: BLE001 - raised again where it is waited for
            result, error = None, caught
        _on_loop(loop, self._finish, client, future, result, error)

    def _finish(self, client: str, future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
        self._release_thread(client)
        if future.done():
            return  # cancelled
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    async def _wait_for_thread(self, client: str) -> None:
        """Wait until a thread is reserved for a call of this client."""
        reserved = self._waiting.put(client)
        try:
            async with asyncio.timeout(self._wait_seconds):
                await reserved
        except (TimeoutError, asyncio.CancelledError) as error:
            if reserved.cancelled():
                self._waiting.remove(client, reserved)
            elif reserved.exception() is None:
                self._release_thread(client)
            if isinstance(error, TimeoutError):
                raise self._busy() from None
            raise

    def _release_thread(self, client: str) -> None:
        """Reserve the thread of this client's call, which has ended, for the next call in the queue."""
        self._running[client] -= 1
        if not self._running[client]:
            del self._running[client]
        following = self._waiting.take(self._may_run)
        if following is not None:
            next_client, reserved = following
            self._running[next_client] += 1
            reserved.set_result(None)

    def _busy(self) -> Busy:
        return Busy(
            f"{self._size} {_WHAT[self._name]} already",
            hint="try again when one of them has ended",
            metadata={"limit": str(self._name), "value": str(self._size)},
        )


def _no_thread() -> Busy:
    return Busy(
        "the system gives the daemon no further thread",
        hint=f"try again when others have ended; whoever runs the daemon can raise the limit: {MORE_THREADS}",
    )


def _on_loop(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *arguments: Any) -> None:
    """Call something on a loop, from any thread. Where the loop has ended nobody waits."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *arguments)


def _complete(call: asyncio.Future[None]) -> None:
    if not call.done():
        call.set_result(None)


_WHAT = {
    Work.QUESTION: "questions are answered",
    Work.BATCH: "large batches are answered",
    Work.COLD_QUESTION: "questions about modules that are not open yet are answered",
    Work.LARGE: "large answers are made",
    Work.WRITE: "changes of the catalogue are made",
    Work.UPLOAD: "uploads are open",
    Work.FETCH: "modules are brought from other servers",
    Work.STREAM: "streams are open",
    Work.GRAB: "grabs run",
    Work.WATCH: "watches are open",
}

WorkQueues = Mapping[Work, WorkQueue]


def build_work_queues(config: Config) -> WorkQueues:
    """The work queues that the configuration asks for."""
    queue, cold = QUEUED_CALLS, COLD_QUESTIONS
    shared = {
        Work.QUESTION: config.workers,
        Work.BATCH: BATCHES,
        Work.LARGE: LARGE_ANSWERS,
        Work.FETCH: FETCHES,
    }
    kept = {
        Work.UPLOAD: UPLOADS,
        Work.STREAM: config.streams,
        Work.GRAB: GRABS,
        Work.WATCH: config.watches,
    }
    return {
        **{work: WorkQueue(work, size, queue) for work, size in shared.items()},
        Work.COLD_QUESTION: WorkQueue(Work.COLD_QUESTION, cold, queue, share=(cold + 1) // 2),
        Work.WRITE: WorkQueue(Work.WRITE, WRITES, queue, share=(WRITES + 1) // 2),
        **{work: WorkQueue(work, size, queue, FREE_THREAD_SECONDS) for work, size in kept.items()},
    }
