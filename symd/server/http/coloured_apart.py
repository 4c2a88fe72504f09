"""Colours of source text, told by a process of its own: lexers are regular expressions, and a text of 250 characters exists for which one of theirs takes longer than anybody
lives. It would hold up every thread of this process."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from typing import Final

from symd.config import DEFAULT_LIMITS
from symd.errors import SymdError
from symd.server.http.colouring import Rows, is_coloured, uncoloured
from symd.system.process import confinement
from symd.system.process.pool import Pool
from symd.system.process.process import ProcessLimits

log = logging.getLogger("symd.server.http")

FUNCTION: Final = "symd.server.http.colouring:answer"
PROCESSES: Final = 2
PROCESS_LIMITS: Final = ProcessLimits(4.0, 1 << 30, 64 << 20, cpu_seconds=4)
"""What the process may take for one text, its start included."""
REMEMBERED: Final = 4096
"""Texts that are remembered as not to be coloured."""


class ColouredApart:
    """Colours texts in processes that start when the first is wanted. What cannot be coloured in time stays plain. Safe to use from several threads."""

    def __init__(self) -> None:
        self._pool = Pool(FUNCTION, PROCESSES, confined=confinement.available())
        self._plain: set[bytes] = set()
        self._lock = threading.Lock()

    def __call__(self, file: str, text: str) -> Rows:
        """As ``colouring.coloured``."""
        if not is_coloured(text):
            return uncoloured(file, text)
        data = json.dumps([file, text]).encode()
        name = hashlib.sha256(data).digest()
        with self._lock:
            if name in self._plain:
                return uncoloured(file, text)
        try:
            answer = self._pool.call(data, DEFAULT_LIMITS, PROCESS_LIMITS)
        except (SymdError, OSError) as error:
            log.warning("a text stays without colours: %s", error)
            return uncoloured(file, text)
        if isinstance(answer, bytes):
            rows: Rows = json.loads(answer)
            return rows
        log.warning("a text stays without colours: %s", answer)
        with self._lock:
            if len(self._plain) >= REMEMBERED:
                self._plain.clear()
            self._plain.add(name)
        return uncoloured(file, text)

    def close(self) -> None:
        """End the processes."""
        self._pool.close()
