"""Modules that a daemon lacks, from the debuginfod servers that its operator named."""

from __future__ import annotations

import logging
import threading
import time
from typing import Final, Protocol

from symd.api import Host
from symd.debug_ids import checked_name
from symd.errors import SymdError
from symd.service.uploaded_debug_data import tell

log = logging.getLogger("symd.service")

PATIENCE_SECONDS: Final = 600.0
"""So long a build ID is not asked for again that no server had."""
REMEMBERED: Final = 4096
"""Build IDs that are remembered as such."""
WHOLE_ID: Final = 16
"""Digits that a build ID has at least, here: a beginning of one is nothing that a server knows."""


class Servers(Protocol):
    """``symd.upstream.Upstream``."""

    def executable(self, build_id: str) -> bytes | None: ...


class Fetching:
    """Brings a module by its build ID into the store. Safe to use from several threads."""

    def __init__(self, engine: Host, servers: Servers) -> None:
        self._engine, self._servers = engine, servers
        self._missing: dict[str, float] = {}
        self._lock = threading.Lock()

    def __call__(self, build_id: str) -> bool:
        """Whether the module is here now. Raises BadQuery, and ServerUnavailable and LimitExceeded of the servers."""
        name = checked_name(build_id)
        if len(name) < WHOLE_ID or self._is_missing(name):
            return False
        data = self._servers.executable(name)
        if data is None:
            self._note_missing(name)
            return False
        try:
            module = self._engine.add(data, f"build-id {name}")
        except SymdError as error:  # what has no device code is nothing that symd keeps
            log.info("debuginfod's file of build ID %s is not kept: %s", name, error)
            self._note_missing(name)
            return False
        tell(self._engine, name, module.sha256)
        return True

    def _is_missing(self, name: str) -> bool:
        with self._lock:
            noted = self._missing.get(name)
        return noted is not None and time.monotonic() - noted < PATIENCE_SECONDS

    def _note_missing(self, name: str) -> None:
        with self._lock:
            if len(self._missing) >= REMEMBERED:
                self._missing.clear()
            self._missing[name] = time.monotonic()
