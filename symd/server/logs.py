"""How the daemon's log is written: a line of text for a person, or of JSON for a program. A record may carry ``facts``,
which JSON keeps apart.

One line of the log ``symd.requests`` for each call that has ended, where somebody asked for that (``symd serve -v``):
its id, who made it, what was asked, what it cost, and what came of it.

What gRPC's own server would write into the daemon's log: a traceback for each client that goes away while its response
is being sent. That a client went away is no error of the daemon; who wants to know reads ``outcome`` in the lines of
requests.

Warnings that strangers cause: one a second at most, each with how many there have been.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from grpc.aio import BaseError

from symd.errors import SymdError
from symd.server.call import Call

AUDIT: Final = "symd.audit"


class TextLogFormatter(logging.Formatter):
    """A line of text for each record; one of the audit log has the same form whatever else is logged."""

    def __init__(self, *, verbose: bool) -> None:
        super().__init__(_VERBOSE if verbose else _PLAIN)

    def format(self, record: logging.LogRecord) -> str:
        if record.name == AUDIT:
            return f'{AUDIT} time="{_time(record)}" {record.getMessage()}'
        return super().format(record)

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 - logging's name
        """The clock of all other lines."""
        del datefmt
        return _time(record)


_PLAIN: Final = "symd: %(levelname)s: %(message)s"
_VERBOSE: Final = "%(asctime)s %(name)s %(levelname)s: %(message)s"


class JsonLogFormatter(logging.Formatter):
    """Each record as one JSON object: ``time`` (UTC), ``level``, ``log``, ``message``, its facts, and ``traceback``."""

    def format(self, record: logging.LogRecord) -> str:
        facts: Mapping[str, Any] = getattr(record, "facts", {})
        told: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname,
            "log": record.name,
            **({} if facts else {"message": record.getMessage()}),
            **facts,
        }
        if record.exc_info:
            told["traceback"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False)


def line(facts: Mapping[str, Any]) -> str:
    """``name=value`` for each fact that says something, quoted where clients could otherwise write lines of their
    own."""
    return " ".join(f"{name}={quoted(value)}" for name, value in facts.items() if value != "")


def quoted(value: object) -> str:
    """A value as it is where it has only letters, digits, "-", "_" and "."; else as a string of JSON, in ASCII."""
    text = str(value)
    bare = text.isascii() and text.replace("-", "").replace("_", "").replace(".", "").isalnum()
    return text if bare else json.dumps(text)


def _time(record: logging.LogRecord) -> str:
    """When the record was made, UTC (ISO 8601)."""
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


log = logging.getLogger("symd.requests")


def requests_logged() -> bool:
    """Whether somebody wants the lines."""
    return log.isEnabledFor(logging.INFO)


def note_request(call: Call, request: Any) -> None:
    """Note what is asked about, where a line or a span will tell of it."""
    if is_told(call):
        subject = getattr(request, "module", "") or getattr(request, "context", "")
        call.module = subject if isinstance(subject, str) else ""
        packed = getattr(request, "packed_queries", None)
        call.count = len(getattr(request, "queries", ())) or getattr(packed, "count", 0)


def is_told(call: Call) -> bool:
    """Whether a line or a span will tell of a call."""
    return call.span is not None or requests_logged()


def log_request(call: Call, outcome: str, error_id: str = "") -> None:
    """Write the line of a call that has ended. ``outcome`` is ``OK``, ``CANCELLED`` or the reason of an error,
    ``error_id`` what the log has a defect's traceback under."""
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


LOGGER = "grpc._cython.cygrpc"


class NoVanishedClients(logging.Filter):
    """Leaves out what is about a call that has ended."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is about anything else."""
        kind = record.exc_info[0] if record.exc_info else None
        return kind is None or not issubclass(kind, BaseError)


def leave_out_vanished_clients() -> None:
    """Leave messages about clients that have gone out of gRPC's log, from now on and in this process. Calling it
    again changes nothing."""
    logger = logging.getLogger(LOGGER)
    if not any(isinstance(each, NoVanishedClients) for each in logger.filters):
        logger.addFilter(NoVanishedClients())


QUIET_SECONDS: Final = 1.0


class QuietLog:
    """A log for something that may happen very often: it says the first, then at most one in ``QUIET_SECONDS``, with
    how many there were. Safe to use from several threads."""

    def __init__(self, log: logging.Logger, what: str) -> None:
        self._log, self._what = log, what
        self._count, self._told = 0, float("-inf")
        self._lock = threading.Lock()

    def warn(self, reason: str) -> None:
        """Say ``what`` and the reason, or only count it."""
        with self._lock:
            self._count += 1
            now = time.monotonic()
            if now - self._told < QUIET_SECONDS:
                return
            self._told = now
            count = self._count
        self._log.warning("%s: %s (%d so far)", self._what, reason, count)


def defect(error: Exception, log: logging.Logger) -> SymdError:
    """What the caller learns of an exception nobody expected: an id under which ``log`` has all of it."""
    number = uuid.uuid4().hex[:12]
    log.error("defect %s", number, exc_info=error)
    return SymdError(
        f"symd has a defect (id {number})", hint="the daemon's log has the details", metadata={"id": number}
    )
