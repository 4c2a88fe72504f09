"""Whether the disk has room for what is written: a daemon says so before writes fail, and again when there is room."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from symd.config import Limits

log = logging.getLogger("symd.store")


class DiskRoom:
    """Free bytes of the disk that has a folder, beside ``Limits.free_disk``."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self._folder = folder
        self._least = limits.free_disk
        self._told: list[Callable[[bool], None]] = []
        self.enough = True
        """What the last look found. True before the first."""

    def listen(self, tell: Callable[[bool], None]) -> None:
        """Call ``tell`` with ``enough`` now, and whenever it changes, from another thread then. It must not raise."""
        self._told.append(tell)
        tell(self.enough)

    def look(self) -> None:
        """Ask the disk; those who listen are told of a change. Raises OSError."""
        found = os.statvfs(self._folder)
        free = found.f_bavail * found.f_frsize
        enough = free >= self._least and not found.f_flag & os.ST_RDONLY
        if enough == self.enough:
            return
        self.enough = enough
        if enough:
            log.warning("%s can be written again: %d bytes are free", self._folder, free)
        else:
            log.error("%s may not take what is written: %d bytes are free", self._folder, free)
        for tell in self._told:
            tell(enough)
