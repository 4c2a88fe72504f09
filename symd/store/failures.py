"""Remembered failures: which errors last, and how one is written down and comes back as itself."""

from __future__ import annotations

import json

from symd.errors import BuildFailed, InvalidInput, LimitExceeded, SymdError, Unsupported, by_reason

LASTING = (InvalidInput, Unsupported, LimitExceeded)
"""The same bytes meet the same end every time. What time, a driver or a disk caused is never remembered."""


def lasts(error: SymdError) -> bool:
    return isinstance(error, LASTING)


def encode(error: SymdError) -> str:
    """One JSON object that ``decode`` makes an equal error of."""
    fields = {
        "reason": error.reason,
        "message": error.message,
        "where": error.where,
        "hint": error.hint,
        "metadata": error.metadata,
    }
    if isinstance(error, BuildFailed):
        fields["build_log"] = error.build_log
    return json.dumps(fields)


def decode(text: str) -> SymdError | None:
    """The error again; None when its class is one that this version does not know (then it is found out anew)."""
    fields = json.loads(text)
    cls = by_reason(fields.pop("reason"))
    return cls(fields.pop("message"), **fields) if cls else None
