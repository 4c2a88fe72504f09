"""The error that a call ended with: a daemon's own, or what gRPC itself says, and what to do where no connection came
about, or one broke."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from shlex import quote
from typing import Any, Final

import grpc
import grpc.aio
from grpc_status import rpc_status

from symd.config import own_socket
from symd.errors import (
    CallRefused,
    DeadlineExceeded,
    InvalidInput,
    Malformed,
    ServerUnavailable,
    SymdError,
    Unavailable,
)
from symd.rpc.channel import PAUSES, SILENT_SECONDS, TLS, UNIX, are_several, hosts
from symd.rpc.wire.columns import OTHER_SIDE
from symd.rpc.wire.failures import from_status, rebuilt

_NO_ROOM_HINT: Final = "try again: so ends a call that a daemon has no room for (its limit pending_calls), or no time before it ends itself"

_TOO_MANY_CALLS: Final = "the daemon refused the call at each attempt: more are open on this connection than it takes"
_FEWER_CALLS_HINT: Final = (
    "allow more time, or have fewer calls open at a time; `symd serve --limit calls_per_connection=N` takes more"
)
_PROXY_HINT: Final = "try again; where there is a proxy between, look into its log"
_HUNG_DAEMON_HINT: Final = (
    "`symd health --server HOST:PORT` and the log of each daemon say what is wrong; a timeout of your own bounds a call"
)
_SILENT: Final = "perAttemptRecvTimeout exceeded"
"""What gRPC says by itself of the last attempt of a call to several daemons, none of which answers."""
_WRITE_FAILED: Final = "Internal error from Core"
"""What grpc.aio says by itself of a stream whose connection went while it wrote a message."""
_NOT_DECODED: Final = "Exception deserializing response!"
_BROKEN_OFF: Final = "RST_STREAM"
"""What gRPC says by itself of a message that is none, and of a stream that HTTP/2 ended without an answer (RFC 9113,
6.4)."""
_TCP_HINT: Final = "TCP takes --access, TLS or --insecure, docs/security.md says which"
_LIKE_A_FULL_DAEMON: Final = ", as a daemon does once it reaches its limit connections"
_LOST_IN_THE_MIDDLE: Final = "the daemon ended, or closed the connection, in the middle of the call"
_ENDED_DAEMON_HINT: Final = "try again when `symd health` says SERVING; the daemon's log says why, or the kernel's (journalctl -k) where it was killed for memory"
_EACH_DAEMON_HINT: Final = (
    "`symd health --server HOST:PORT` says of each alone what is wrong; try again when one of them serves"
)
_HOST_NAME_HINT: Final = "check the host name (DNS, /etc/hosts)"
_SOCKET_GROUP_HINT: Final = "symd serve --socket-group lets a group in"
_OTHER_NAME: Final = "Hostname Verification Check failed"
_NOT_VERIFIED: Final = "CERTIFICATE_VERIFY_FAILED"
"""gRPC's words for certificates that it does not take."""
_SAYS_NOTHING: Final = "timed out before receiving SETTINGS"
"""gRPC's words for a connection that came about, and on which nothing came."""
_LIMITED: Final = "header with status: 429"
"""gRPC's words for HTTP's Too Many Requests."""
_NO_TLS_HINT: Final = (
    "where it asks for a client certificate, name yours with $SYMD_TLS_CERT and its key with $SYMD_TLS_KEY; one that is named may have expired, or be signed by"
    " an authority that is not in the daemon's --tls-client-ca; or it has reached its limit connections: try again later"
)
_FULL_DAEMON_HINT: Final = "try again when others have closed theirs; `symd serve --limit connections=N` takes more"
_REFUSED_STREAM: Final = "RST_STREAM with error code 7"
"""gRPC's words for it (RFC 9113, 7)."""
_CONNECTING: Final = "last error: "
"""What is in gRPC's words where no connection came about."""
ENDED: Final = (grpc.RpcError, grpc.aio.UsageError, ValueError, asyncio.CancelledError)
"""What gRPC raises for a call that failed, and where its channel is closed: before it (UsageError, and ValueError
without an event loop), or meanwhile (CancelledError, as if the caller's task were cancelled)."""


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


def _error_of_grpc(  # noqa: PLR0911 - one line a status
    code: grpc.StatusCode, details: str, address: str, timeout: float | None
) -> SymdError:
    if code is grpc.StatusCode.UNAVAILABLE:
        return _unavailable(details, address)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return DeadlineExceeded(f"no answer within {timeout} s", where=address, hint="allow more time")
    if code is grpc.StatusCode.CANCELLED:
        return _cancelled(details, address)
    if details == _WRITE_FAILED:
        return ServerUnavailable(
            _LOST_IN_THE_MIDDLE, where=address, hint=_ENDED_DAEMON_HINT, metadata={"grpc": details}
        )
    if details == _NOT_DECODED:
        return undecodable(address)
    if _BROKEN_OFF in details and code in (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL):
        facts = {"grpc": details}
        return Unavailable("the call was broken off before its end", where=address, hint=_PROXY_HINT, metadata=facts)
    return rebuilt(code.value[0], details, "", {}).prefix_where(address)


def _unavailable(details: str, address: str) -> Unavailable:
    if is_refused_unseen(details):
        return CallRefused(_TOO_MANY_CALLS, where=address, hint=_FEWER_CALLS_HINT, metadata={"grpc": details})
    what, hint = unreachable(address, details)
    return ServerUnavailable(what, where=address, hint=hint, metadata={"grpc": details})


def _cancelled(details: str, address: str) -> Unavailable:
    if _SILENT in details:
        what = f"{1 + len(PAUSES)} times a daemon took the call and said nothing for {SILENT_SECONDS} s"
        return ServerUnavailable(what, where=address, hint=_HUNG_DAEMON_HINT)
    return Unavailable("the daemon has ended the call without saying why", where=address, hint=_NO_ROOM_HINT)


def undecodable(address: str) -> Malformed:
    """The error for an answer that is no message of its type."""
    return Malformed("what came is not an answer to this call", where=address, hint=OTHER_SIDE)


def unreachable(address: str, details: str) -> tuple[str, str]:
    """What is wrong and what to do, for gRPC's words about a connection that did not come about, or broke."""
    if _closed(details) and _CONNECTING not in details:
        return _LOST_IN_THE_MIDDLE, _ENDED_DAEMON_HINT
    if _LIMITED in details:
        return (
            "a proxy before the daemon refused the call: too many at a time, or in a second",
            "try again later, or fewer",
        )
    if are_several(address):
        return _none_of_several(address, details)
    if _SAYS_NOTHING in details:
        return "what listens there does not answer", _stopped(address)
    if not address.startswith(UNIX) and _is_unresolved(details):
        return f"the name {hosts(address)[0].rpartition(':')[0]} cannot be resolved", _HOST_NAME_HINT
    way = _no_socket if address.startswith(UNIX) else _no_tls if address.startswith(TLS) else _no_tcp
    return way(address, details) or ("no daemon answers", _start(address))


def is_refused_unseen(details: str) -> bool:
    """Whether gRPC's words tell of REFUSED_STREAM, which a daemon says of a call that it has not looked at. gRPC itself
    sends such a call again only where the connection ends."""
    return _REFUSED_STREAM in details


def _start(address: str) -> str:
    """How a daemon is started that listens there."""
    if address == f"{UNIX}{own_socket()}":
        return "start one with `symd daemon start`"
    command = f"`symd daemon start --address {quote(address.removeprefix(TLS))}`"
    return f"start one with {command}" + ("" if address.startswith(UNIX) else f"; {_TCP_HINT}")


def _stopped(address: str) -> str:
    """Why somebody who listens may not even begin to speak."""
    what = "the daemon is stopped (a T in `ps -eo pid,stat,args`), hangs or has much to do: its log says more"
    return what if address.startswith(UNIX) else f"{what}; or it is not a symd daemon"


def _is_unresolved(details: str) -> bool:
    return any(words in details for words in ("DNS resolution failed", "errors resolving"))


def _none_of_several(address: str, details: str) -> tuple[str, str]:
    """What gRPC says is of the last that it tried. Of that only the certificate's faults are told: those of one name
    share them."""
    if _is_unresolved(details):
        return f"the name {hosts(address)[0]} has no address", _HOST_NAME_HINT
    said = _no_tls(address, details) if address.startswith(TLS) and not _closed(details) else None
    closed = "the connection was closed, and none of these daemons took the call"
    return said or (closed if _closed(details) else "none of these daemons answers", _EACH_DAEMON_HINT)


def _no_socket(address: str, details: str) -> tuple[str, str] | None:
    path = Path(address.removeprefix(UNIX))
    if "Permission denied" in details or _is_forbidden(path):
        return "the daemon's user has not let you use this socket", _SOCKET_GROUP_HINT
    if path.exists() and not path.is_socket():
        return (
            "this is not a socket",
            "`symd status` says where yours is; --server and `symd serve --address` must name the same",
        )
    if not _closed(details):
        return None if path.exists() else ("no daemon is running: no such socket", _start(address))
    return f"the daemon closed the connection{_LIKE_A_FULL_DAEMON}", _FULL_DAEMON_HINT


def _no_tls(address: str, details: str) -> tuple[str, str] | None:
    if "WRONG_VERSION_NUMBER" in details:
        return "the daemon does not speak TLS there", f"write {address.removeprefix(TLS)}, where it is your own"
    if _OTHER_NAME in details:
        host = hosts(address)[0].rpartition(":")[0]
        what = f"the daemon's certificate is for another name than {host}"
        return what, "write a name that it is for, or have one issued that is for this name too"
    if _NOT_VERIFIED in details or "ertificate" in details:
        words = details.partition(f"{_NOT_VERIFIED}: ")[2].partition(": OK")[0] or details
        return f"the daemon's certificate is not trusted: {words}", "$SYMD_TLS_CA names who has signed it"
    if _closed(details):
        return "the daemon took no TLS connection from you", _NO_TLS_HINT
    return None


def _no_tcp(address: str, details: str) -> tuple[str, str] | None:
    if _closed(details):
        return (
            f"write {TLS}{address} if it speaks TLS: it takes no plain connection",
            f"or it closed this one{_LIKE_A_FULL_DAEMON}",
        )
    if "Failed parsing HTTP/2" in details:
        return (
            "what listens there is not a symd daemon: it does not speak gRPC",
            "symd serve --address says at which port yours is",
        )
    return None


def _is_forbidden(path: Path) -> bool:
    """Whether a socket is there, or may be, that this user may not write to."""
    if os.access(path, os.W_OK):
        return False
    try:
        path.stat()
    except PermissionError:
        return True
    except OSError:  # nothing is there, or no longer
        return False
    return True


def _closed(details: str) -> bool:
    return any(words in details for words in ("Socket closed", "Connection reset", "Broken pipe", "recvmsg"))
