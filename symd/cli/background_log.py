"""A log that nobody waits for: whoever reads a daemon's standard error and stops reading holds up lines, never the daemon."""

from __future__ import annotations

import logging
import os
import queue
import threading
from typing import Final

from symd.cli.patient_streams import write

LINES: Final = 10_000
"""Lines kept while nobody takes any. Those that come then are counted, and the count is told later."""
LAST_SECONDS: Final = 1.0
"""How long the lines that are left have at the end."""


class BackgroundHandler(logging.Handler):
    """Writes lines to a descriptor from a thread of its own."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._lines: queue.Queue[bytes | None] = queue.Queue(LINES)
        self._lost = 0
        self._thread = threading.Thread(target=self._write, name="symd-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Called under the handler's lock."""
        try:
            line = self._line(record)
            if self._lost:
                self._lines.put_nowait(self._line(_lost(self._lost)))
                self._lost = 0
            self._lines.put_nowait(line)
        except queue.Full:
            self._lost += 1
        except (ValueError, TypeError):  # a record whose arguments do not fit its text
            self.handleError(record)

    def close(self) -> None:
        """Let what is left be written, as long as somebody takes it."""
        if self._thread.is_alive():
            try:
                self._lines.put(None, timeout=LAST_SECONDS)
                self._thread.join(LAST_SECONDS)
            except queue.Full:
                pass
        super().close()

    def _line(self, record: logging.LogRecord) -> bytes:
        return f"{self.format(record)}\n".encode("utf-8", "backslashreplace")

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                write(self._descriptor, line)
            except OSError:  # nobody will ever read it: what follows is thrown away
                self._descriptor = os.open(os.devnull, os.O_WRONLY)


def _lost(count: int) -> logging.LogRecord:
    """A record like others, so that it is written as they are, in JSON too."""
    text = "%d lines of the log were lost: nobody took them"
    return logging.LogRecord("symd.log", logging.WARNING, __file__, 0, text, (count,), None)
