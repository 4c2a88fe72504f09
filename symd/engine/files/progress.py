"""What takes longer than a second says so, to whoever looks at a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from threading import Event

AFTER_SECONDS, EVERY_SECONDS = 1.0, 0.5
_CLEAR = "\r\x1b[K"
"""To the beginning of the line, and nothing from there on."""


@contextmanager
def working(what: str, stream: TextIO | None = None, after: float = AFTER_SECONDS) -> Iterator[None]:
    """While it lasts, and after the seconds ``after``, a line on standard error says ``what`` is done and for how long; it is gone at
    the end. Nothing is written where that is no terminal."""
    out = stream or sys.stderr
    if not out.isatty() or os.environ.get("TERM") == "dumb":
        yield
        return

    done = Event()
    teller = Thread(target=_tell, args=(what, out, after, done), daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()


def _tell(what: str, out: TextIO, after: float, done: Event) -> None:
    if done.wait(after):
        return
    seconds = after
    while True:
        out.write(f"{_CLEAR}symd: {what}, {seconds:.0f} s")
        out.flush()
        if done.wait(EVERY_SECONDS):
            break
        seconds += EVERY_SECONDS
    out.write(_CLEAR)
    out.flush()
