"""How answers are written: JSON lines, and text that is plain when nobody looks at a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

NO = 1
"""The exit code of a command whose answer is no: nothing found, or not all of it."""
PLAIN_COLUMNS = 100_000
"""The width of what is not written to a terminal: nothing is folded."""


def write_json(value: Any) -> None:
    """One line of JSON."""
    from symd.answers_json import to_json  # noqa: PLC0415 - most commands write text

    sys.stdout.write(to_json(value) + "\n")


def write_line(text: str = "") -> None:
    """One line of text; control characters of foreign names do not reach the terminal."""
    sys.stdout.write(printable(text) + "\n")


def printable(text: str) -> str:
    """``text`` with everything but spaces and printable characters escaped."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def write_rich(what: RenderableType) -> None:
    """A tree or a table: coloured and folded on a terminal; elsewhere plain, one line each, however long."""
    from rich.console import Console  # noqa: PLC0415 - slow to import, and most verbs write lines

    terminal = sys.stdout.isatty()
    console = Console(
        file=sys.stdout, width=None if terminal else PLAIN_COLUMNS, highlight=False, markup=False, emoji=False
    )
    with console.capture() as captured:
        console.print(what)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))
