"""One line of the log ``symd.requests`` for each call that has ended, where somebody asked for that (``symd serve -v``): its id,
who made it, what was asked, what it cost, and what came of it."""

from __future__ import annotations

import logging
import time
from typing import Any

from symd.server.call import Call
from symd.server.log_format import line

log = logging.getLogger("symd.requests")


def requests_logged() -> bool:
    """Whether somebody wants the lines."""
    return log.isEnabledFor(logging.INFO)


def note_request(call: Call, request: Any) -> None:
    """Note what is asked about, where a line or a span will tell of it."""
    if is_told(call):
        call.module = getattr(request, "name", "") or getattr(request, "parent", "")
        call.count = len(getattr(request, "queries", ())) or getattr(getattr(request, "column", None), "count", 0)


def is_told(call: Call) -> bool:
    """Whether a line or a span will tell of a call."""
    return call.span is not None or requests_logged()


def log_request(call: Call, outcome: str, error_id: str = "") -> None:
    """Write the line of a call that has ended. ``outcome`` is ``OK``, ``CANCELLED`` or the reason of an error, ``error_id`` what
    the log has a defect's traceback under."""
    if not requests_logged():
        return
    facts: dict[str, Any] = {
        "id": call.number,
        "client": call.caller or call.peer,
        "peer": call.peer,
        "method": call.method.rpartition(".")[2],
        "module": call.module or call.subject,
        "count": call.count,
        "milliseconds": round((time.monotonic() - call.begun) * 1e3, 3),
        "received": call.received,
        "sent": call.sent,
        "outcome": outcome,
    }
    if error_id:
        facts["error_id"] = error_id
    log.info(line(facts), extra={"facts": facts})
