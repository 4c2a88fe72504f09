"""One line of the log ``symd.audit`` for each call that may change something: who, from where, what, which module, and what
came of it. What clients wrote is quoted, so that a line stays one line."""

from __future__ import annotations

import json
import logging
import time
from typing import Final

from symd.model.rights import Right
from symd.service.call import Call
from symd.service.rights import RIGHTS

log = logging.getLogger("symd.audit")

OK: Final = "OK"
CANCELLED: Final = "CANCELLED"
"""The client went away before it had its answer; what it asked for may have been done."""
_LONGEST: Final = 200
_AUDITED: Final = frozenset(method for method, right in RIGHTS.items() if right is not Right.READ)


def audit(call: Call, outcome: str) -> None:
    """Write the line of a call that has ended, unless it only asked. ``outcome`` is ``OK``, ``CANCELLED`` or the reason of an
    error."""
    if call.method in _AUDITED and call.caller:
        seconds = time.monotonic() - call.begun
        facts = (call.caller, call.peer, call.method.rpartition(".")[2], call.subject, outcome)
        log.info("who=%s from=%s what=%s which=%s outcome=%s seconds=%.3f", *map(_quoted, facts), seconds)


def _quoted(text: str) -> str:
    plain = text[:_LONGEST]
    return plain if plain.isascii() and plain.replace("-", "").replace("_", "").isalnum() else json.dumps(plain)
