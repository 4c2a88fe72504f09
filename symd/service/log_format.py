"""How the daemon's log is written: a line of text for a person, or of JSON for a program. A record may carry ``facts``, which JSON
keeps apart."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


class JsonLines(logging.Formatter):
    """Each record as one JSON object: ``time`` (UTC), ``level``, ``log``, ``message``, its facts, and ``traceback``."""

    def format(self, record: logging.LogRecord) -> str:
        facts: Mapping[str, Any] = getattr(record, "facts", {})
        told: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
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
    return " ".join(f"{name}={_shown(value)}" for name, value in facts.items() if value != "")


def _shown(value: object) -> str:
    text = str(value)
    return (
        text
        if text.isascii() and text.replace("-", "").replace("_", "").replace(".", "").isalnum()
        else json.dumps(text)
    )
