"""One line of the log ``symd.audit`` for each call that may change something, refused ones too: who, from where, what, which module,
and what came of it. docs/operations.md describes each field. What clients wrote is quoted, so that a line stays one line."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from symd.errors import Unauthenticated
from symd.model.rights import Right
from symd.server.call import Call
from symd.server.logs import quoted
from symd.server.rights import RIGHTS
from symd.store import Eviction

log = logging.getLogger("symd.audit")

STORE: Final = "store"
"""The client that audit lines name when the store evicts a module: no client asked for that."""

OK: Final = "OK"
CANCELLED: Final = "CANCELLED"
"""The client went away before it had its answer; what it asked for may have been done."""
STRANGERS: Final = 20
"""Lines a second, at most, about calls of those who did not say who they are. Further ones are counted."""
_LONGEST: Final = 200
_AUDITED: Final = frozenset(method for method, right in RIGHTS.items() if right is not Right.READ)


class AuditLog:
    """Writes the lines of the audit log, with a bound on lines about strangers for each second. Safe to use from
    several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._second = 0
        self._told = self._left_out = 0

    def write(self, call: Call, outcome: str) -> None:
        """Write the line of a call that has ended, unless it only asked. ``outcome`` is ``OK``, ``CANCELLED`` or the reason of an
        error."""
        if call.method in _AUDITED:
            self.tell(call, outcome)

    def tell(self, call: Call, outcome: str) -> None:
        """Write the line of a call that is known to change something. ``outcome`` is ``OK``, ``CANCELLED`` or the
        reason of an error."""
        if not call.caller and outcome == Unauthenticated.reason and not self._room():
            return
        facts: dict[str, Any] = {
            "who": call.caller[:_LONGEST],
            "from": call.peer[:_LONGEST],
            "what": call.method.rpartition(".")[2],
            "which": call.subject[:_LONGEST],
            "outcome": outcome,
            "seconds": round(time.monotonic() - call.begun, 3),
            "id": call.number,
        }
        if left_out := self._taken():
            facts["left_out"] = left_out
        _write(facts)

    def _room(self) -> bool:
        """Whether another line about a stranger may be written in this second."""
        with self._lock:
            second = int(time.monotonic())
            if second != self._second:
                self._second, self._told = second, 0
            self._told += 1
            if self._told > STRANGERS:
                self._left_out += 1
            return self._told <= STRANGERS

    def _taken(self) -> int:
        """How many lines were left out since this was asked last."""
        with self._lock:
            left_out, self._left_out = self._left_out, 0
            return left_out


def audit_eviction(eviction: Eviction) -> None:
    """Write the line of a module that the store removed by itself, to make room."""
    which = f"modules/{eviction.digest}"
    _write({"who": STORE, "from": STORE, "what": "Evict", "which": which, "outcome": OK, "bytes": eviction.size})


def _write(facts: Mapping[str, Any]) -> None:
    log.info("%s", " ".join(f"{name}={quoted(value)}" for name, value in facts.items()), extra={"facts": facts})
