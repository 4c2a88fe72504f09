"""Several daemons over one store, as a client sees them: addresses that name more than one, what gRPC is told of them, and how a call that
lost its daemon goes on at another.

gRPC takes daemons in turn and begins a call anew that was refused or lost before anything of its answer came (gRFC A6). What had begun to
come goes on here: an answer says the same whichever daemon gives it, so that what was told already is passed over."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import aclosing, closing
from typing import Any, Final, TypeVar

from symd.errors import CallRefused, StoreUnavailable, SymdError
from symd.rpc.retry import Attempt, Attempts, RetryPolicy

T = TypeVar("T")
SCHEMES: Final = ("dns:", "ipv4:", "ipv6:")
"""How targets begin that may name several addresses (github.com/grpc/grpc/blob/master/doc/naming.md)."""
_STOOD_SECONDS: Final = 10.0
"""A watch that was open so long was not refused."""
_ONCE: Final = {
    "symd.v1.AliasService": ("DeleteAlias",),
    "symd.v1.ContextService": ("DeleteContext",),
    "symd.v1.ModuleService": ("DeleteModule", "GrabModule"),
}
"""Methods that say something else the second time, or cost much: who calls them decides."""
_STREAMED: Final = {
    "symd.v1.BreakpointService": ("WatchBreakpoints",),
    "symd.v1.CoreService": ("ReadCore",),
    "symd.v1.ListingService": ("GetListing", "ReadSources"),
    "symd.v1.ModuleService": ("UploadModule", "ReadCodeObject", "WatchModules"),
    "symd.v1.SymbolService": ("SymbolizeStream", "GetLineTable"),
}
"""Methods whose requests or answers are streams: begun anew by gRPC itself, such a call may wait forever, also beyond its deadline (seen with
gRPC 1.85: no connection is left, and the call does not end). ``Failover`` begins them anew instead."""
SERVICE_CONFIG: Final = json.dumps(
    {
        "loadBalancingConfig": [{"round_robin": {}}],
        "methodConfig": [
            {
                "name": [
                    {"service": service, "method": name}
                    for methods in (_ONCE, _STREAMED)
                    for service, names in methods.items()
                    for name in names
                ]
            },
            {
                "name": [{}],
                "retryPolicy": {
                    "maxAttempts": 5,
                    "initialBackoff": "0.05s",
                    "maxBackoff": "1s",
                    "backoffMultiplier": 2,
                    "retryableStatusCodes": ["UNAVAILABLE"],
                },
            },
        ],
    }
)
"""What a client in any language is to give its channel (github.com/grpc/grpc/blob/master/doc/service_config.md)."""
KEEPALIVE_SECONDS: Final = 60
"""A connection with calls may be silent so long before the client asks whether the daemon is there."""
KEEPALIVE: Final = (
    # A daemon that is frozen, or whose machine is gone, closes no connection: a call to it would wait for ever.
    ("grpc.keepalive_time_ms", KEEPALIVE_SECONDS * 1000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.ping_timeout_ms", 20_000),  # of what gRPC asks by itself to measure: keepalive waits for that answer
    ("grpc.http2.max_pings_without_data", 0),
)
"""Options of a channel to whatever daemon (grpc/impl/channel_arg_names.h)."""
RECONNECTING: Final = (
    # A daemon that is started again is found within a second; gRPC by itself would look for it once in two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5000),  # which bounds connecting, and delays nothing after a refusal (gRPC core)
    ("grpc.max_reconnect_backoff_ms", 1000),
)
"""The same."""
OPTIONS: Final = (
    ("grpc.service_config", SERVICE_CONFIG),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.per_rpc_retry_buffer_size", 64 << 20),  # a request that does not fit is sent once only
    *RECONNECTING,
    *KEEPALIVE,
)
"""The same of a channel to several daemons."""


def are_several(address: str) -> bool:
    """Whether an address may name several daemons. What is no text names none: whoever connects says so."""
    return isinstance(address, str) and address.removeprefix("tls:").startswith(SCHEMES)


def hosts(address: str) -> list[str]:
    """The HOST:PORT that an address names; of a name of DNS that name."""
    scheme, _, rest = address.removeprefix("tls:").partition(":")
    if f"{scheme}:" not in SCHEMES:
        return [address.removeprefix("tls:")]
    return rest.split(",") if scheme != "dns" else [rest.rpartition("/")[2]]


class Failover:
    """How a client goes on when a daemon is lost: at once with the next where there are ``several``, else not at all. A call that a daemon
    refused without looking at it is sent again in any case. ``is_certain`` says of the first loss whether another attempt can only end so too; it
    may take a while. ``seconds`` are the caller's timeout, for all attempts together; a watch has none, and may be silent."""

    def __init__(self, *, several: bool, is_certain: Callable[[SymdError], bool] = lambda _: False) -> None:
        self._patience = RetryPolicy(several=several)
        self._is_certain = is_certain

    def called(self, call: Callable[[Attempt], T], seconds: float | None) -> T:
        """The answer to a call that may be made twice."""
        if self._patience.several:
            return self._called_again(self._patience.attempts(seconds), call)
        first = Attempt(seconds)
        try:
            return call(first)
        except CallRefused as error:
            attempts = self._patience.attempts(seconds, first.began)
            self._wait(attempts, attempts.next_delay(error), error)
        return self._called_again(attempts, call)

    def _called_again(self, attempts: Attempts, call: Callable[[Attempt], T]) -> T:
        while True:
            try:
                answer = call(attempts.next())
            except SymdError as error:
                self._wait(attempts, attempts.next_delay(error), error)
            else:
                attempts.answered()
                return answer

    def replayed(self, begin: Callable[[Attempt], Generator[T, None, None]], seconds: float | None) -> Iterator[T]:
        """The messages of a stream that says the same each time it is begun, each once."""
        return self._heard(_Replay(self._patience.attempts(seconds)), begin)

    def followed(self, begin: Callable[[str], Generator[Any, None, None]], position: str) -> Iterator[Any]:
        """The messages of a watch that is begun after a position and tells others; each has ``position``, which is empty where the watch
        could not go on from. What was told since the last is told again then, and passed over."""
        watched = _Watched(self._patience.attempts(None), position)
        return self._heard(watched, lambda _attempt: begin(watched.position))

    async def called_async(self, call: Callable[[Attempt], Awaitable[T]], seconds: float | None) -> T:
        """``called``, awaited."""
        if self._patience.several:
            return await self._called_again_async(self._patience.attempts(seconds), call)
        first = Attempt(seconds)
        try:
            return await call(first)
        except CallRefused as error:
            attempts = self._patience.attempts(seconds, first.began)
            await self._wait_async(attempts, attempts.next_delay(error), error)
        return await self._called_again_async(attempts, call)

    async def _called_again_async(self, attempts: Attempts, call: Callable[[Attempt], Awaitable[T]]) -> T:
        while True:
            try:
                answer = await call(attempts.next())
            except SymdError as error:
                await self._wait_async(attempts, attempts.next_delay(error), error)
            else:
                attempts.answered()
                return answer

    def replayed_async(
        self, begin: Callable[[Attempt], AsyncGenerator[T, None]], seconds: float | None
    ) -> AsyncIterator[T]:
        """``replayed``, awaited."""
        return self._heard_async(_Replay(self._patience.attempts(seconds)), begin)

    def followed_async(self, begin: Callable[[str], AsyncGenerator[Any, None]], position: str) -> AsyncIterator[Any]:
        """``followed``, awaited."""
        watched = _Watched(self._patience.attempts(None), position)
        return self._heard_async(watched, lambda _attempt: begin(watched.position))

    def _heard(self, course: _Replay | _Watched, begin: Callable[[Attempt], Generator[T, None, None]]) -> Iterator[T]:
        """The new messages of a stream that is begun again where its daemon is lost."""
        while True:
            course.begins()
            try:
                with closing(begin(course.attempts.next())) as messages:
                    yield from filter(course.is_new, messages)
                    return
            except SymdError as error:
                self._wait(course.attempts, course.next_delay(error), error)

    async def _heard_async(
        self, course: _Replay | _Watched, begin: Callable[[Attempt], AsyncGenerator[T, None]]
    ) -> AsyncIterator[T]:
        """``_heard``, awaited."""
        while True:
            course.begins()
            try:
                async with aclosing(begin(course.attempts.next())) as messages:
                    async for message in messages:
                        if course.is_new(message):
                            yield message
                    return
            except SymdError as error:
                await self._wait_async(course.attempts, course.next_delay(error), error)

    def _wait(self, attempts: Attempts, seconds: float, error: SymdError) -> None:
        """Until the next attempt. Raises the error of the first loss where that is certain to end so too."""
        if attempts.lost == 1 and self._is_certain(error):
            raise error
        time.sleep(seconds)

    async def _wait_async(self, attempts: Attempts, seconds: float, error: SymdError) -> None:
        """``_wait``, awaited: only what may take a while has a thread."""
        if attempts.lost == 1 and await asyncio.to_thread(self._is_certain, error):
            raise error
        await asyncio.sleep(seconds)


class _Replay:
    """What was told of a stream that says the same each time it is begun."""

    def __init__(self, attempts: Attempts) -> None:
        self.attempts = attempts
        self._told = self._number = 0

    def begins(self) -> None:
        """The stream is begun, once more where it was before."""
        self._number = 0

    def is_new(self, _message: object) -> bool:
        """Whether the next message was not told yet: only such a one is worth another attempt."""
        self._number += 1
        if self._number <= self._told:
            return False
        self._told = self._number
        self.attempts.answered()
        return True

    def next_delay(self, error: SymdError) -> float:
        """As ``Attempts.next_delay``."""
        return self.attempts.next_delay(error)


class _Watched:
    """What was told of a watch, which goes on from its position."""

    def __init__(self, attempts: Attempts, position: str) -> None:
        self.attempts = attempts
        self._begun = 0.0
        self.position = position
        self._since: set[bytes] = set()

    def begins(self) -> None:
        """The watch is begun at its position."""
        self._begun = time.monotonic()

    def is_new(self, message: Any) -> bool:
        """Whether the next message was not told yet."""
        self.attempts.answered()
        if message.position:
            self.position, self._since = message.position, set()
            return True
        name = hashlib.blake2b(message.SerializeToString(deterministic=True), digest_size=16).digest()
        if name in self._since:
            return False
        self._since.add(name)
        return True

    def next_delay(self, error: SymdError) -> float:
        """As ``Attempts.next_delay``; a watch that stood for a while had its daemon, though nothing happened that it could tell. The store of several
        daemons may be away for a moment, as a database is that is started anew: what happens meanwhile is told after it."""
        if time.monotonic() - self._begun >= _STOOD_SECONDS:
            self.attempts.answered()
        return self.attempts.next_delay(error, outlives=(StoreUnavailable,))
