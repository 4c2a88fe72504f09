"""Reasons as the numbers that travel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from symd.errors import Malformed
from symd.model.reasons import Reason
from symd.wire.columns import OTHER_SIDE

_REASONS: Final[Mapping[int, Reason]] = {int(reason): reason for reason in Reason}


def from_reason(number: int) -> Reason:
    """Raises ``Malformed`` for a number that stands for none."""
    reason = _REASONS.get(number)
    if reason is None:
        raise Malformed(f"the reason {number} of an answer is not known", hint=OTHER_SIDE)
    return reason
