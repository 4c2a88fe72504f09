"""The error that a call ended with, in symd's words: a daemon's own, or what gRPC itself says."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import grpc
import grpc.aio
from grpc_status import rpc_status

from symd.errors import (
    CallRefused,
    DeadlineExceeded,
    InvalidInput,
    Malformed,
    ServerUnavailable,
    SymdError,
    Unavailable,
)
from symd.rpc.service_config import PAUSES, SILENT_SECONDS
from symd.rpc.unreachable import is_refused_unseen, unreachable
from symd.rpc.wire.columns import OTHER_SIDE
from symd.rpc.wire.failures import from_status, rebuilt

_NO_ROOM: Final = "try again: so ends a call that a daemon has no room for (its limit pending_calls), or no time before it ends itself"

_TOO_MANY: Final = "the daemon refused the call at each attempt: more are open on this connection than it takes"
_FEWER: Final = (
    "allow more time, or have fewer calls open at a time; `symd serve --limit calls_per_connection=N` takes more"
)
_PROXY: Final = "try again; where there is a proxy between, look into its log"
_EACH: Final = (
    "`symd health --server HOST:PORT` and the log of each daemon say what is wrong; a timeout of your own bounds a call"
)
_SILENT: Final = "perAttemptRecvTimeout exceeded"
"""What gRPC says by itself of the last attempt of a call to several daemons, none of which answers."""
_NOT_DECODED: Final = "Exception deserializing response!"
_BROKEN_OFF: Final = "RST_STREAM"
"""What gRPC says by itself of a message that is none, and of a stream that HTTP/2 ended without an answer (RFC 9113, 6.4)."""


ENDED: Final = (grpc.RpcError, grpc.aio.UsageError, ValueError, asyncio.CancelledError)
"""What gRPC raises for a call that failed, and where its channel is closed: before it (UsageError, and ValueError without an event loop),
or meanwhile (CancelledError, as if the caller's task were cancelled)."""


def is_cancelled(error: BaseException) -> bool:
    """Whether the caller's task is cancelled indeed."""
    task = asyncio.current_task() if isinstance(error, asyncio.CancelledError) else None
    return task is not None and task.cancelling() > 0


def closed_error(address: str) -> InvalidInput:
    """The error for a call of a client that was closed, before it or meanwhile."""
    return InvalidInput("this client is closed", where=address, hint="ask before close(), or inside its `with`")


def error_of(error: Any, address: str, timeout: float | None) -> SymdError:
    """The error that the status of a call stands for; one without details comes from gRPC itself."""
    status = rpc_status.from_call(error)
    if status is not None:
        return from_status(status)
    return _error_of_grpc(error.code(), error.details() or "", address, timeout)


def _error_of_grpc(code: grpc.StatusCode, details: str, address: str, timeout: float | None) -> SymdError:
    if code is grpc.StatusCode.UNAVAILABLE:
        return _unavailable(details, address)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return DeadlineExceeded(f"no answer within {timeout} s", where=address, hint="allow more time")
    if code is grpc.StatusCode.CANCELLED:
        return _cancelled(details, address)
    if details == _NOT_DECODED:
        return undecodable(address)
    if _BROKEN_OFF in details and code in (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL):
        facts = {"grpc": details}
        return Unavailable("the call was broken off before its end", where=address, hint=_PROXY, metadata=facts)
    return rebuilt(code.value[0], details, "", {}).prefix_where(address)


def _unavailable(details: str, address: str) -> Unavailable:
    if is_refused_unseen(details):
        return CallRefused(_TOO_MANY, where=address, hint=_FEWER, metadata={"grpc": details})
    what, hint = unreachable(address, details)
    return ServerUnavailable(what, where=address, hint=hint, metadata={"grpc": details})


def _cancelled(details: str, address: str) -> Unavailable:
    if _SILENT in details:
        what = f"{1 + len(PAUSES)} times a daemon took the call and said nothing for {SILENT_SECONDS} s"
        return ServerUnavailable(what, where=address, hint=_EACH)
    return Unavailable("the daemon has ended the call without saying why", where=address, hint=_NO_ROOM)


def undecodable(address: str) -> Malformed:
    """The error for an answer that is no message of its type."""
    return Malformed("what came is no answer to this call", where=address, hint=OTHER_SIDE)
