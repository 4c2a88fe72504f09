"""Remembered failures: which errors last, and how one is written down and comes back as itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from symd.errors import InvalidInput, LimitExceeded, SymdError, Unsupported, described, from_description

LASTING = (InvalidInput, Unsupported, LimitExceeded)
"""Errors that are remembered, because the same bytes meet the same end every time. What time, a driver or a disk
caused is not among them."""
_TEXTS = ("reason", "message", "where", "hint")


def lasts(error: SymdError) -> bool:
    return isinstance(error, LASTING)


def encode(error: SymdError) -> str:
    """One JSON object that ``decode`` makes an equal error of."""
    return json.dumps(described(error))


def decode(text: str) -> SymdError | None:
    """The error again; None when its class is one that this version does not know, or the text is damaged: then it is found out
    anew."""
    try:
        fields = json.loads(text)
        return from_description(fields) if isinstance(fields, dict) and _can_be_told(fields) else None
    except (ValueError, RecursionError, KeyError, TypeError):  # perhaps a field that this version does not know
        return None


def _can_be_told(fields: Mapping[str, Any]) -> bool:
    """Whether texts are texts: who is told the error sends them on."""
    metadata = fields.get("metadata")
    texts = [fields.get(name) for name in _TEXTS]
    return isinstance(metadata, dict) and all(isinstance(each, str) for each in (*texts, *metadata.values()))
