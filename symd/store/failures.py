"""Remembered failures: which errors last, and how one is written down and comes back as itself."""

from __future__ import annotations

import json

from symd.errors import InvalidInput, LimitExceeded, SymdError, Unsupported, described, from_description

LASTING = (InvalidInput, Unsupported, LimitExceeded)
"""The same bytes meet the same end every time. What time, a driver or a disk caused is never remembered."""


def lasts(error: SymdError) -> bool:
    return isinstance(error, LASTING)


def encode(error: SymdError) -> str:
    """One JSON object that ``decode`` makes an equal error of."""
    return json.dumps(described(error))


def decode(text: str) -> SymdError | None:
    """The error again; None when its class is one that this version does not know (then it is found out anew)."""
    return from_description(json.loads(text))
