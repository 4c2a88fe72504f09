"""Errors of limits that more than one module of the daemon checks."""

from __future__ import annotations

from symd.errors import LimitExceeded


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
