"""Bytes of a request to its message. Were gRPC to read them, invalid bytes would be a traceback in the log and the status
INTERNAL.

Errors of limits that more than one module of the daemon checks.
"""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from symd.errors import LimitExceeded, Malformed


def message_too_large(what: str, size: int, name: str, most: int) -> LimitExceeded:
    """The error for a message of ``size`` bytes where the limit ``name`` allows ``most``; ``what`` is "the request" or "the response"."""
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
