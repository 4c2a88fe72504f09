"""Messages of calls between the event loop and handlers' threads, in bytes and parsed, with the bounds on them.

Requests are parsed here: if gRPC parsed them, invalid bytes would be a traceback in the log and the status INTERNAL.
Bytes of large messages that the daemon holds for its clients are counted: requests until they are answered, responses
until they are taken, and what responses are still to be made of; small ones are bounded by the number of calls. A
stream's messages pass between the loop and a handler's thread a few at a time, and the faster side waits: the handler
iterates over plain requests and yields responses; the loop reads one message ahead and no further.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from typing import Final, Self, TypeVar

from google.protobuf.message import DecodeError, Message
from grpc.aio import EOF, BaseError

from symd.config import Limits
from symd.errors import Busy, LimitExceeded, Malformed
from symd.server.call import Call, CallEnded


def message_too_large(what: str, size: int, name: str, most: int) -> LimitExceeded:
    """The error for a message of ``size`` bytes where the limit ``name`` allows ``most``; ``what`` is "the request" or
    "the response"."""
    return LimitExceeded(
        f"{what} has {size} bytes, at most {most} are taken",
        hint=f"ask for less at a time; {name} may be raised where the daemon is started",
        metadata={"limit": name, "value": str(most)},
    )


def module_too_large(message: str, most: int) -> LimitExceeded:
    """The error for a module of more than ``most`` bytes, the limit ``module_size``."""
    return LimitExceeded(
        message,
        hint="raise module_size where the daemon is started",
        metadata={"limit": "module_size", "value": str(most)},
    )


M = TypeVar("M", bound=Message)

MAX_REQUEST = 64 << 20
"""The largest request message, bytes."""
INLINE_BYTES = 4096
"""What is larger is not read on the event loop, where nothing may take long."""


def parsed(kind: type[M], data: bytes, what: str) -> M:
    """The message. Raises ``Malformed``, which calls it ``what``."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise Malformed(f"not a {what}: {error}", where="the request") from None


def parsed_inline(kind: type[M], data: bytes, what: str) -> M:
    """The message, read on the event loop, for a kind that is never large. Raises ``Malformed``, which calls it
    ``what``, also for more than ``INLINE_BYTES`` bytes."""
    if len(data) > INLINE_BYTES:
        raise Malformed(f"a {what} of {len(data)} bytes, at most {INLINE_BYTES} are read", where="the request")
    return parsed(kind, data, what)


COUNTED_BYTES = 64 << 10
"""A smaller message is not counted."""


class BytesInFlight:
    """Counts the bytes of large messages that the daemon holds, of all clients and of each. Safe to use from several
    threads."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._by_client: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.total = 0

    def hold(self, client: str, size: int) -> int:
        """Count a message; how many bytes ``release`` is to be told. Raises ``Busy`` where that would be too many."""
        if size < COUNTED_BYTES:
            return 0
        with self._lock:
            self._check("bytes_in_flight", self.total + size, self._limits.bytes_in_flight, "all clients")
            mine = self._by_client[client] + size
            self._check("client_bytes_in_flight", mine, self._limits.client_bytes_in_flight, "this client")
            self._add(client, size)
        return size

    def hold_anyway(self, client: str, size: int) -> int:
        """Count a message that is there already and cannot be refused; how many bytes ``release`` is to be told."""
        if size < COUNTED_BYTES:
            return 0
        with self._lock:
            self._add(client, size)
        return size

    def has_room(self, client: str, size: int) -> bool:
        """Whether a message of so many bytes would not be refused now."""
        limits = self._limits
        return (
            self.total + size <= limits.bytes_in_flight
            and self._by_client[client] + size <= limits.client_bytes_in_flight
        )

    def keep(self, call: Call, size: int) -> None:
        """Count what the rest of a call's responses is made of, until the call ends. Raises ``Busy``."""
        held = self.hold(call.client, size)
        if held and not call.add_callback(partial(self.release, call.client, held)):
            self.release(call.client, held)

    @contextmanager
    def holding(self, client: str, size: int) -> Iterator[None]:
        """Count so many bytes while it lasts. Raises ``Busy``."""
        held = self.hold(client, size)
        try:
            yield
        finally:
            self.release(client, held)

    def _add(self, client: str, size: int) -> None:
        self._by_client[client] += size
        self.total += size

    def release(self, client: str, size: int) -> None:
        """Say that so many bytes are held no longer."""
        if size:
            with self._lock:
                self._add(client, -size)
                if not self._by_client[client]:
                    del self._by_client[client]

    def _check(self, name: str, size: int, most: int, whose: str) -> None:
        if size > most:
            raise Busy(
                f"large messages of {whose} would take {size} bytes at a time, at most {most} are taken",
                hint=f"send fewer at a time; {name} may be raised where the daemon is started",
                metadata={"limit": name, "value": str(most)},
            )


MAX_UNSENT = 2
"""Responses that may be made before the first of them is sent."""
RETRY_SECONDS = 0.01
"""Seconds between two checks whether a stream that was not allowed to read ahead is by now."""


class Requests:
    """The messages of a stream, ``first`` the one that came already (``EOF``: none will). An iterator for a handler's
    thread, which raises ``Busy`` where too many bytes of the ``client`` are in flight. A message is held until the next
    one is taken."""

    def __init__(self, first: object, flight: BytesInFlight, client: str) -> None:
        self._flight = flight
        self._client = client
        self._held: deque[int] = deque()
        self._loop = asyncio.get_running_loop()
        self._arrived: SimpleQueue[object] = SimpleQueue()
        self._taken = asyncio.Event()
        self._ended = False
        self._last = first is EOF
        self.awaited_since: float | None = None
        """When the handler began to wait for the client, by the loop's clock; None while it works."""
        self.notify: Callable[[], None] = lambda: None
        """Called on the loop whenever something has arrived: it must not wait."""
        self._arrive(first)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        if self._arrived.empty():
            self.awaited_since = self._loop.time()
        message = self._take_message(self._arrived.get())
        if message is None:
            raise StopIteration
        return message

    def poll(self) -> bytes | None:
        """The next message where one has come; None where none has, or will."""
        return None if self._arrived.empty() else self._take_message(self._arrived.get())

    def _take_message(self, message: object) -> bytes | None:
        """What has arrived, None where there is nothing more. Raises ``CallEnded`` and ``Busy``."""
        self.awaited_since = None
        if message is _ENDED:
            self._arrived.put(message)
            raise CallEnded
        if message is EOF:
            self._arrived.put(message)
            return None
        if isinstance(message, Busy):
            raise message
        self._loop.call_soon_threadsafe(self._taken.set)
        assert isinstance(message, bytes)  # noqa: S101 - what gRPC gives
        return message

    async def receive(self, read: Callable[[], Awaitable[object]]) -> None:
        """Put messages where the handler takes them until there are no more, or the call has ended."""
        while not (self._last or self._ended):
            await self._taken.wait()
            self._taken.clear()
            self._release(1)
            await self._wait_for_room()
            try:
                message = await read()
            except BaseError:
                return self.end()  # gRPC says that the call has ended
            self._last = message is EOF
            self._arrive(message)
        return None

    async def _wait_for_room(self) -> None:
        """Wait, before the next message is read, until the handler has asked for it, or there is room in memory for a
        second message as large as the one that the handler works at."""
        while (  # noqa: ASYNC110 - what is waited for happens in other threads, and on other calls
            self._held
            and not self._ended
            and self.awaited_since is None
            and not self._flight.has_room(self._client, self._held[-1])
        ):
            await asyncio.sleep(RETRY_SECONDS)
        if self.awaited_since is not None:
            self._release(0)

    def end(self) -> None:
        """Let the handler's thread end when it asks for the next message."""
        self._ended = True
        self._release(0)
        self._arrived.put(_ENDED)
        self._taken.set()

    def _arrive(self, message: object) -> None:
        self.awaited_since = None  # from here on it is the handler that is waited for, however late its thread wakes
        if isinstance(message, bytes):
            try:
                self._held.append(self._flight.hold(self._client, len(message)))
            except Busy as error:
                self._last = True
                self._arrived.put(error)
                self.notify()
                return
        self._arrived.put(message)
        self.notify()

    def _release(self, kept: int) -> None:
        """Give back what all messages but the last ``kept`` hold."""
        while len(self._held) > kept:
            self._flight.release(self._client, self._held.popleft())


class Responses:
    """The messages that a handler's thread makes, to be sent on the event loop. They are counted as bytes in flight of
    the ``client``; while there are too many of those, each is made when the one before has been taken."""

    def __init__(self, flight: BytesInFlight, client: str) -> None:
        self._flight = flight
        self._client = client
        self._held: deque[int] = deque()
        self._loop = asyncio.get_running_loop()
        self._unsent = threading.Semaphore(MAX_UNSENT)
        self._made: deque[tuple[bytes, int]] = deque()
        self._changed = asyncio.Event()
        self._closed = False
        self._ended = False
        self.stalled_since: float | None = None
        """When the message at hand was given to gRPC, by the loop's clock; None while there is none."""

    def put(self, message: bytes) -> None:
        """Send a message, when there is room. Raises ``CallEnded``. For the handler's thread."""
        slots = 1 if self._flight.has_room(self._client, len(message)) else MAX_UNSENT
        for _ in range(slots):
            self._unsent.acquire()
        if self._ended:
            raise CallEnded
        self._loop.call_soon_threadsafe(self._append, message, slots)

    async def send(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        """Send what is made until ``close``."""
        while await self._wait_for_message():
            self.stalled_since = self._loop.time()
            message, slots = self._made.popleft()
            await write(message)
            del message
            self.stalled_since = None
            if self._held:
                self._flight.release(self._client, self._held.popleft())
            self._unsent.release(slots)

    def close(self) -> None:
        """Say that nothing more is made."""
        self._closed = True
        self._changed.set()

    def end(self) -> None:
        """Let the handler's thread end when it makes the next message."""
        self._ended = True
        while self._held:
            self._flight.release(self._client, self._held.popleft())
        self._unsent.release(MAX_UNSENT)

    async def _wait_for_message(self) -> bool:
        """Whether there is another; False when nothing more is made."""
        while not (self._made or self._closed):
            self._changed.clear()
            await self._changed.wait()
        return bool(self._made)

    def _append(self, message: bytes, slots: int) -> None:
        if not self._ended:
            self._held.append(self._flight.hold_anyway(self._client, len(message)))
        self._made.append((message, slots))
        self._changed.set()


_ENDED: Final = object()
