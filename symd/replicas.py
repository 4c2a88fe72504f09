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

from symd.errors import ServerUnavailable, Unavailable

T = TypeVar("T")
SCHEMES: Final = ("dns:", "ipv4:", "ipv6:")
"""How targets begin that may name several addresses (github.com/grpc/grpc/blob/master/doc/naming.md)."""
ATTEMPTS: Final = 6
"""So often one after another a daemon may be lost before the client gives up."""
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0
_ONCE: Final = {
    "symd.v1.AliasService": ("DeleteAlias",),
    "symd.v1.ContextService": ("DeleteContext",),
    "symd.v1.ModuleService": ("DeleteModule", "GrabModule"),
}
"""Methods that say something else the second time, or cost much: who calls them decides."""
SERVICE_CONFIG: Final = json.dumps(
    {
        "loadBalancingConfig": [{"round_robin": {}}],
        "methodConfig": [
            {"name": [{"service": service, "method": name} for service, names in _ONCE.items() for name in names]},
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
OPTIONS: Final = (
    ("grpc.service_config", SERVICE_CONFIG),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.per_rpc_retry_buffer_size", 64 << 20),  # a request that does not fit is sent once only
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
)
"""Options of a channel to several daemons (grpc/impl/channel_arg_names.h)."""


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
    """How a client goes on when a daemon is lost: at once with the next where there are ``several``, else not at all."""

    def __init__(self, *, several: bool) -> None:
        self._attempts = ATTEMPTS if several else 1

    def called(self, call: Callable[[], T]) -> T:
        """The answer to a call that may be made twice."""
        lost = 0
        while True:
            try:
                return call()
            except Unavailable as error:
                lost += 1
                time.sleep(self._pause(error, lost))

    def replayed(self, begin: Callable[[], Generator[T, None, None]]) -> Iterator[T]:
        """The messages of a stream that says the same each time it is begun, each once."""
        told = lost = 0
        while True:
            try:
                with closing(begin()) as messages:
                    for number, message in enumerate(messages):
                        if number == told:
                            told, lost = told + 1, 0
                            yield message
                    return
            except Unavailable as error:
                lost += 1
                time.sleep(self._pause(error, lost))

    def followed(self, begin: Callable[[str], Generator[Any, None, None]], position: str) -> Iterator[Any]:
        """The messages of a watch that is begun after a position and tells others; each has ``position``, which is empty where the watch
        could not go on from. What was told since the last is told again then, and passed over."""
        since: set[bytes] = set()
        lost = 0
        while True:
            try:
                with closing(begin(position)) as messages:
                    for message in messages:
                        lost = 0
                        name = hashlib.blake2b(message.SerializeToString(deterministic=True), digest_size=16).digest()
                        if message.position:
                            position, since = message.position, set()
                        elif name in since:
                            continue
                        else:
                            since.add(name)
                        yield message
                    return
            except Unavailable as error:
                lost += 1
                time.sleep(self._pause(error, lost))

    async def called_async(self, call: Callable[[], Awaitable[T]]) -> T:
        """``called``, awaited."""
        lost = 0
        while True:
            try:
                return await call()
            except Unavailable as error:
                lost += 1
                await asyncio.sleep(self._pause(error, lost))

    async def replayed_async(self, begin: Callable[[], AsyncGenerator[T, None]]) -> AsyncIterator[T]:
        """``replayed``, awaited."""
        told = lost = 0
        while True:
            try:
                async with aclosing(begin()) as messages:
                    number = 0
                    async for message in messages:
                        if number == told:
                            told, lost = told + 1, 0
                            yield message
                        number += 1
                    return
            except Unavailable as error:
                lost += 1
                await asyncio.sleep(self._pause(error, lost))

    def _pause(self, error: Unavailable, lost: int) -> float:
        """Seconds before the next attempt, after ``lost`` failed ones in a row, the last with ``error``. Raises it where there is no next."""
        if lost >= self._attempts or not _is_lost(error):
            raise error
        return _pause_seconds(lost)


def _is_lost(error: Unavailable) -> bool:
    """Whether the daemon went, or ended the call without a word; an outside part that failed it is no better off elsewhere."""
    return isinstance(error, ServerUnavailable) or type(error) is Unavailable


def _pause_seconds(lost: int) -> float:
    """How long to wait after so many attempts that failed in a row."""
    return min(_FIRST_PAUSE * 2.0 ** (lost - 1), _LONGEST_PAUSE)
