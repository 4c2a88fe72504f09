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
from functools import partial
from typing import Any, Final, TypeVar

from symd.errors import ServerUnavailable, StoreUnavailable, Unavailable

T = TypeVar("T")
SCHEMES: Final = ("dns:", "ipv4:", "ipv6:")
"""How targets begin that may name several addresses (github.com/grpc/grpc/blob/master/doc/naming.md)."""
ATTEMPTS: Final = 8
"""So often one after another a daemon may be lost before the client gives up."""
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0
_STOOD_SECONDS: Final = 60.0
"""A watch that was open so long was not refused."""
_ONCE: Final = {
    "symd.v1.AliasService": ("DeleteAlias",),
    "symd.v1.ContextService": ("DeleteContext",),
    "symd.v1.ModuleService": ("DeleteModule", "GrabModule"),
}
"""Methods that say something else the second time, or cost much: who calls them decides."""
_STREAMED: Final = {"symd.v1.ModuleService": ("UploadModule",), "symd.v1.SymbolService": ("SymbolizeStream",)}
"""Methods whose requests are streams: begun anew by gRPC itself while daemons are lost quickly, such a call may wait forever
(seen with gRPC 1.85: no connection is left, and the call does not end). ``Persistence`` begins them anew instead."""
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
                    "initialBackoff": f"{_FIRST_PAUSE}s",
                    "maxBackoff": f"{_LONGEST_PAUSE}s",
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
OPTIONS: Final = (
    ("grpc.service_config", SERVICE_CONFIG),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.per_rpc_retry_buffer_size", 64 << 20),  # a request that does not fit is sent once only
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
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


class Persistence:
    """How a client goes on when a daemon is lost: at once with the next where there are ``several``, else not at all. ``is_certain`` says of
    the first loss whether another attempt can only end so too; it may take a while."""

    def __init__(self, *, several: bool, is_certain: Callable[[Unavailable], bool] = lambda _: False) -> None:
        self._losses = partial(_Losses, ATTEMPTS if several else 1, is_certain)

    def called(self, call: Callable[[], T]) -> T:
        """The answer to a call that may be made twice."""
        losses = self._losses()
        while True:
            try:
                return call()
            except Unavailable as error:
                losses.bear(error)
                _wait(losses, error)

    def replayed(self, begin: Callable[[], Generator[T, None, None]]) -> Iterator[T]:
        """The messages of a stream that says the same each time it is begun, each once."""
        return _heard(_Replay(self._losses()), begin)

    def followed(self, begin: Callable[[str], Generator[Any, None, None]], position: str) -> Iterator[Any]:
        """The messages of a watch that is begun after a position and tells others; each has ``position``, which is empty where the watch
        could not go on from. What was told since the last is told again then, and passed over."""
        watched = _Watched(self._losses(), position)
        return _heard(watched, lambda: begin(watched.position))

    async def called_async(self, call: Callable[[], Awaitable[T]]) -> T:
        """``called``, awaited."""
        losses = self._losses()
        while True:
            try:
                return await call()
            except Unavailable as error:
                losses.bear(error)
                await _wait_async(losses, error)

    def replayed_async(self, begin: Callable[[], AsyncGenerator[T, None]]) -> AsyncIterator[T]:
        """``replayed``, awaited."""
        return _heard_async(_Replay(self._losses()), begin)

    def followed_async(self, begin: Callable[[str], AsyncGenerator[Any, None]], position: str) -> AsyncIterator[Any]:
        """``followed``, awaited."""
        watched = _Watched(self._losses(), position)
        return _heard_async(watched, lambda: begin(watched.position))


class _Losses:
    """The daemons that were lost one after another, of which so many ``attempts`` are made; ``is_certain`` as for ``Persistence``."""

    def __init__(self, attempts: int, is_certain: Callable[[Unavailable], bool]) -> None:
        self._attempts, self.is_certain = attempts, is_certain
        self.lost = 0
        """How many were lost since the last that was there."""

    def none(self) -> None:
        """A daemon is there: those that are lost later count from the first."""
        self.lost = 0

    def bear(self, error: Unavailable, *, outlives: tuple[type[Unavailable], ...] = ()) -> None:
        """Count an attempt that failed with ``error``, which is the loss of a daemon or one of ``outlives``. Raises it where there is no next."""
        self.lost += 1
        is_borne = _is_lost(error) or isinstance(error, outlives)
        if self.lost >= self._attempts or not is_borne:
            raise error


class _Replay:
    """What was told of a stream that says the same each time it is begun."""

    def __init__(self, losses: _Losses) -> None:
        self.losses = losses
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
        self.losses.none()
        return True

    def bear(self, error: Unavailable) -> None:
        """As ``_Losses.bear``."""
        self.losses.bear(error)


class _Watched:
    """What was told of a watch, which goes on from its position."""

    def __init__(self, losses: _Losses, position: str) -> None:
        self.losses = losses
        self._begun = 0.0
        self.position = position
        self._since: set[bytes] = set()

    def begins(self) -> None:
        """The watch is begun at its position."""
        self._begun = time.monotonic()

    def is_new(self, message: Any) -> bool:
        """Whether the next message was not told yet."""
        self.losses.none()
        if message.position:
            self.position, self._since = message.position, set()
            return True
        name = hashlib.blake2b(message.SerializeToString(deterministic=True), digest_size=16).digest()
        if name in self._since:
            return False
        self._since.add(name)
        return True

    def bear(self, error: Unavailable) -> None:
        """As ``_Losses.bear``; a watch that stood for a while had its daemon, though nothing happened that it could tell. The store of several
        daemons may be away for a moment, as a database is that is started anew: what happens meanwhile is told after it."""
        if time.monotonic() - self._begun >= _STOOD_SECONDS:
            self.losses.none()
        self.losses.bear(error, outlives=(StoreUnavailable,))


def _heard(course: _Replay | _Watched, begin: Callable[[], Generator[T, None, None]]) -> Iterator[T]:
    """The new messages of a stream that is begun again where its daemon is lost."""
    while True:
        course.begins()
        try:
            with closing(begin()) as messages:
                yield from filter(course.is_new, messages)
                return
        except Unavailable as error:
            course.bear(error)
            _wait(course.losses, error)


async def _heard_async(course: _Replay | _Watched, begin: Callable[[], AsyncGenerator[T, None]]) -> AsyncIterator[T]:
    """``_heard``, awaited."""
    while True:
        course.begins()
        try:
            async with aclosing(begin()) as messages:
                async for message in messages:
                    if course.is_new(message):
                        yield message
                return
        except Unavailable as error:
            course.bear(error)
            await _wait_async(course.losses, error)


def _wait(losses: _Losses, error: Unavailable) -> None:
    """Until the next attempt. Raises the error of the first loss where that is certain to end so too."""
    if losses.lost == 1 and losses.is_certain(error):
        raise error
    time.sleep(_pause_seconds(losses.lost))


async def _wait_async(losses: _Losses, error: Unavailable) -> None:
    """``_wait``, awaited: only what may take a while has a thread."""
    if losses.lost == 1 and await asyncio.to_thread(losses.is_certain, error):
        raise error
    await asyncio.sleep(_pause_seconds(losses.lost))


def _is_lost(error: Unavailable) -> bool:
    """Whether the daemon went, or ended the call without a word; an outside part that failed it is no better off elsewhere."""
    return isinstance(error, ServerUnavailable) or type(error) is Unavailable


def _pause_seconds(lost: int) -> float:
    """How long to wait after so many attempts that failed in a row."""
    return min(_FIRST_PAUSE * 2.0 ** (lost - 1), _LONGEST_PAUSE)
