"""Warnings that strangers cause: one a second at most, each with how many there have been."""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

QUIET_SECONDS: Final = 1.0


class QuietLog:
    """Safe to use from several threads."""

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
