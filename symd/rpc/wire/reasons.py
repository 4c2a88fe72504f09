"""Reasons as the numbers that travel. The enum is open: a newer daemon may send one that this symd has no name for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from symd.errors import Malformed
from symd.model.columns import U8
from symd.model.reasons import KNOWN, Reason
from symd.rpc.wire.columns import OTHER_SIDE

_REASONS: Final[Mapping[int, Reason]] = {int(reason): reason for reason in KNOWN}
_IS_KNOWN: Final = np.isin(np.arange(256), KNOWN)


def from_reason(number: int) -> Reason:
    """Raises ``Malformed`` where there is none."""
    if not number:
        raise _none()
    return _REASONS.get(number, Reason.UNRECOGNIZED)


def from_reasons(numbers: U8) -> U8:
    """The reasons of a table's entries. Entry 0, which stands for none, has none. Raises ``Malformed`` where another has none."""
    is_known = _IS_KNOWN[numbers]
    if is_known[1:].all():
        return numbers
    if not numbers[1:].all():
        raise _none()
    found = np.where(is_known, numbers, np.uint8(Reason.UNRECOGNIZED))
    found[0] = 0
    return found


def _none() -> Malformed:
    return Malformed("an answer has no reason", hint=OTHER_SIDE)
