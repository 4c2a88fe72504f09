"""The daemon's log: its lines as text for a person or JSON for a program; a line of the log ``symd.requests`` for each
call that has ended, if asked for (``symd serve -v``); and the audit log.

The log ``symd.audit`` has one line for each call that may change something, refused ones too: who, from where, what,
which module, and the outcome (docs/operations.md describes each field). Text of clients is quoted, so that a line stays
one line.

gRPC's traceback for each client that goes away while its response is being sent is held back: the ``outcome`` of a
request shows it.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from grpc.aio import BaseError

from symd.errors import SymdError
from symd.server.call import Call
from symd.server.config import Right

if TYPE_CHECKING:
    from symd.store import Eviction

AUDIT: Final = "symd.audit"
OK: Final = "OK"
CANCELLED: Final = "CANCELLED"
"""The client went away before it had its answer; what it asked for may have been done."""


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
        fields: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname,
            "log": record.name,
            **({} if facts else {"message": record.getMessage()}),
            **facts,
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


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
    """Whether lines of requests are written."""
    return log.isEnabledFor(logging.INFO)


def note_request(call: Call, request: Any) -> None:
    """Note in the call what its request is about, if a line or a span will report it."""
    if is_reported(call):
        subject = getattr(request, "module", "") or getattr(request, "context", "")
        call.module = subject if isinstance(subject, str) else ""
        packed = getattr(request, "packed_queries", None)
        call.count = len(getattr(request, "queries", ())) or getattr(packed, "count", 0)


def is_reported(call: Call) -> bool:
    """Whether a line or a span will report a call."""
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


audit_log = logging.getLogger(AUDIT)

STORE: Final = "store"
"""The client that audit lines name when the store evicts a module: no client asked for that."""
_LONGEST: Final = 200


def audit(call: Call, outcome: str) -> None:
    """Write the line of a call that has ended, unless it only asked. ``outcome`` is ``OK``, ``CANCELLED`` or the reason
    of an error."""
    if call.right is Right.READ:
        return
    _audit(
        {
            "who": call.caller[:_LONGEST],
            "from": call.peer[:_LONGEST],
            "what": call.method.rpartition(".")[2],
            "which": call.subject[:_LONGEST],
            "outcome": outcome,
            "seconds": round(time.monotonic() - call.begun, 3),
            "id": call.number,
        }
    )


def audit_eviction(eviction: Eviction) -> None:
    """Write the line of a module that the store removed by itself, to make room."""
    which = f"modules/{eviction.digest}"
    _audit({"who": STORE, "from": STORE, "what": "Evict", "which": which, "outcome": OK, "bytes": eviction.size})


def _audit(facts: Mapping[str, Any]) -> None:
    audit_log.info("%s", " ".join(f"{name}={quoted(value)}" for name, value in facts.items()), extra={"facts": facts})


LOGGER = "grpc._cython.cygrpc"
"""The logger of gRPC's server."""


class NoVanishedClients(logging.Filter):
    """Drops records about clients that have gone away (``grpc.aio.BaseError``)."""

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


def defect(error: Exception, log: logging.Logger) -> SymdError:
    """What the caller learns of an exception nobody expected: an id under which ``log`` has all of it."""
    number = uuid.uuid4().hex[:12]
    log.error("defect %s", number, exc_info=error)
    return SymdError(
        f"symd has a defect (id {number})", hint="the daemon's log has the details", metadata={"id": number}
    )
