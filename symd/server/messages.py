"""Messages of calls between the event loop and handlers' threads, in bytes and parsed, with the bounds on them.

Requests are parsed here: if gRPC parsed them, invalid bytes would be a traceback in the log and the status INTERNAL.
Bytes of large messages that the daemon holds for its clients are counted: requests until they are answered, responses
until they are taken, and what responses are still to be made of; small ones are bounded by the number of calls. Of a
stream's messages one is read ahead, and one is sent while the next is made.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, Self, TypeVar

from google.protobuf.message import DecodeError, Message
from grpc.aio import EOF, BaseError

from symd.config import Limits
from symd.errors import Busy, DeadlineExceeded, LimitExceeded, Malformed
from symd.server.call import Call, CallEnded


def response_too_large(size: int, most: int) -> LimitExceeded:
    """The error for a response of ``size`` bytes where the limit ``response_bytes`` allows ``most``."""
    return LimitExceeded(
        f"the response has {size} bytes, at most {most} are taken",
        hint="ask for less at a time; response_bytes may be raised where the daemon is started",
        metadata={"limit": "response_bytes", "value": str(most)},
    )


def module_too_large(message: str, most: int) -> LimitExceeded:
    """The error for a module of more than ``most`` bytes, the limit ``module_size``."""
    return LimitExceeded(
        message,
        hint="raise module_size where the daemon is started",
        metadata={"limit": "module_size", "value": str(most)},
    )


M = TypeVar("M", bound=Message)
T = TypeVar("T")

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


class TakenOnce(Generic[T]):
    """A message on its way from one function to another, which takes it once. Once read, a large message takes its
    memory a second time: whoever waits for the answer meanwhile holds this, and not the message."""

    __slots__ = ("_message",)

    def __init__(self, message: T) -> None:
        self._message = [message]

    @property
    def is_taken(self) -> bool:
        return not self._message

    def peek(self) -> T:
        """The message, which stays here. Raises IndexError where it was taken."""
        return self._message[0]

    def take(self) -> T:
        """The message, which is no longer held here. Raises IndexError where it was taken."""
        return self._message.pop()

    def put_back(self, message: T) -> None:
        """Hold a message that was taken."""
        self._message.append(message)


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


WRITE_SECONDS = 60.0
"""The longest a client may take to take a message of a stream."""


class Requests:
    """The messages of a stream, ``first`` the one that came already (``EOF``: none will): an iterator for a handler's
    thread, which raises ``Busy`` where too many bytes of the client are in flight, and ``DeadlineExceeded`` where none
    comes for ``idle_seconds``. A message is held until the next one is taken, which is read ahead where there is room
    for a second one as large."""

    def __init__(
        self, first: object, read: Callable[[], Awaitable[object]], flight: BytesInFlight, call: Call, limits: Limits
    ) -> None:
        self._read, self._flight, self._call = read, flight, call
        self._idle_seconds = limits.idle_seconds
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._held = 0
        self._ended = False
        self._next: Future[object] | None = Future()
        self._next.set_result(first)
        self.notify: Callable[[], None] = lambda: None
        """Called whenever a message has come, or none will: it must not wait."""
        if not call.add_callback(self.end):
            self.end()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        message = self._take_message(self._idle_seconds)
        if message is None:
            raise StopIteration
        return message

    def poll(self) -> bytes | None:
        """The next message where one has come; None where none has, or will."""
        return self._take_message(None) if self._begun().done() else None

    def end(self) -> None:
        """Let the handler's thread end when it asks for the next message. Nothing is held from here on."""
        with self._lock:
            self._ended = True
        self._release()
        if self._next is not None:
            self._next.cancel()

    def _begun(self) -> Future[object]:
        """The next message, whose reading has begun."""
        if self._next is None:
            self._next = _on_loop(self._reading(), self._loop, self._call)
            self._next.add_done_callback(lambda _: self.notify())
        return self._next

    async def _reading(self) -> object:
        return await self._read()

    def _take_message(self, seconds: float | None) -> bytes | None:
        """The next message, None where there is none. Raises ``CallEnded``, ``Busy`` and ``DeadlineExceeded``."""
        try:
            message = self._begun().result(seconds)
        except TimeoutError:
            raise late(
                "the stream was idle",
                "idle_seconds",
                self._idle_seconds,
                "; idle_seconds may be raised where the daemon is started",
            ) from None
        except (BaseError, CancelledError):
            raise CallEnded from None
        self._release()
        if message is EOF:
            return None
        assert isinstance(message, bytes)  # noqa: S101 - what gRPC gives
        self._hold(len(message))
        self._next = None
        if self._flight.has_room(self._call.client, len(message)):
            self._begun()
        return message

    def _hold(self, size: int) -> None:
        """Count a message until ``_release``. Raises ``Busy``, and ``CallEnded`` where nobody would release it."""
        with self._lock:
            if self._ended:
                raise CallEnded
            self._held = self._flight.hold(self._call.client, size)

    def _release(self) -> None:
        with self._lock:
            held, self._held = self._held, 0
        self._flight.release(self._call.client, held)


class Responses:
    """The messages that a handler's thread makes: each is sent while the next one is made, and held until the client
    has taken it."""

    def __init__(self, write: Callable[[bytes], Awaitable[None]], flight: BytesInFlight, call: Call) -> None:
        self._write, self._flight, self._call = write, flight, call
        self._loop = asyncio.get_running_loop()
        self._sending: Future[None] | None = None
        if not call.add_callback(self.end):
            self.end()

    def put(self, message: bytes) -> None:
        """Begin to send a message, once the one before was taken. Raises ``CallEnded``, and ``DeadlineExceeded`` where
        that takes longer than ``WRITE_SECONDS``. For the handler's thread."""
        try:
            if self._sending is not None:
                self._sending.result(WRITE_SECONDS)
        except TimeoutError:
            raise _not_taken() from None
        except (BaseError, CancelledError):
            raise CallEnded from None
        self._sending = _on_loop(self._send(message), self._loop, self._call)

    async def last_taken(self) -> None:
        """Wait, on the event loop, until the client has taken the last message. Raises ``CallEnded`` and
        ``DeadlineExceeded`` as ``put``."""
        if self._sending is None:
            return
        sent = asyncio.wrap_future(self._sending)
        done, _ = await asyncio.wait([sent], timeout=WRITE_SECONDS)
        if not done:
            sent.cancel()
            raise _not_taken()
        try:
            sent.result()
        except (BaseError, asyncio.CancelledError):
            raise CallEnded from None

    def end(self) -> None:
        """Let the handler's thread end when it makes the next message."""
        if self._sending is not None:
            self._sending.cancel()

    async def _send(self, message: bytes) -> None:
        held = self._flight.hold_anyway(self._call.client, len(message))
        try:
            await self._write(message)
        finally:
            self._flight.release(self._call.client, held)


def _on_loop(coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop, call: Call) -> Future[T]:
    """What a coroutine gives that runs on the loop; it is cancelled where the call has ended already."""
    future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    if not call.is_active():
        future.cancel()
    return future


def _not_taken() -> DeadlineExceeded:
    return late("the client did not take a response", "write_seconds", WRITE_SECONDS)


def late(what: str, limit: str, seconds: float, more: str = "") -> DeadlineExceeded:
    """The error for a client that was waited for ``seconds``."""
    return DeadlineExceeded(
        f"{what} for {seconds:g} s",
        hint=f"begin again{more}",
        metadata={"limit": limit, "value": f"{seconds:g}"},
    )
