"""How the daemon's log is written: a line of text for a person, or of JSON for a program. A record may carry ``facts``, which JSON
keeps apart."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

AUDIT: Final = "symd.audit"


class TextLines(logging.Formatter):
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


class JsonLines(logging.Formatter):
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
    """``name=value`` for each fact that says something, quoted where clients could otherwise write lines of their own."""
    return " ".join(f"{name}={quoted(value)}" for name, value in facts.items() if value != "")


def quoted(value: object) -> str:
    """A value as it is where it has only letters, digits, "-", "_" and "."; else as a string of JSON, in ASCII."""
    text = str(value)
    bare = text.isascii() and text.replace("-", "").replace("_", "").replace(".", "").isalnum()
    return text if bare else json.dumps(text)


def _time(record: logging.LogRecord) -> str:
    """When the record was made, UTC (ISO 8601)."""
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
