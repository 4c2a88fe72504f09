"""How answers are written: JSON lines, and text that is plain when nobody looks at a terminal."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console


def to_json(value: Any) -> str:
    """One line of JSON; text stays readable."""
    return json.dumps(value, ensure_ascii=False)


def write_json(value: Any) -> None:
    sys.stdout.write(to_json(value) + "\n")


def write_line(text: str = "") -> None:
    """One line of text; control characters of foreign names do not reach the terminal."""
    sys.stdout.write(printable(text) + "\n")


def printable(text: str) -> str:
    """``text`` with everything but spaces and printable characters escaped."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def console() -> Console:
    """Rich output to stdout: colours on a terminal only, and lines as long as they are elsewhere."""
    terminal = sys.stdout.isatty()
    return Console(file=sys.stdout, width=None if terminal else 10_000, highlight=False, markup=False, emoji=False)
