"""Whether a shared store takes what is written: its catalogue answers, and this machine's disk has room for what passes through."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from symd.config import Limits
from symd.errors import StoreUnavailable

log = logging.getLogger("symd.store")

_FULL: Final = frozenset(("ENOSPC", "EDQUOT", "EROFS", "EIO"))


class SharedRoom:
    """What the last look found, and those who want to hear of it. Safe to use from several threads but for ``look``."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self._folder = folder
        self._least = limits.free_disk
        self._told: list[Callable[[bool], None]] = []
        self._refusal = ""
        """Why this machine's disk refused, until the next look finds room."""
        self.enough = True
        """What the last look found. True before the first."""

    def listen(self, tell: Callable[[bool], None]) -> None:
        """Call ``tell`` with ``enough`` now, and whenever it changes, from another thread then. It must not raise."""
        self._told.append(tell)
        tell(self.enough)

    @contextmanager
    def noticing(self) -> Iterator[None]:
        """Notice a disk that refuses what is written inside."""
        try:
            yield
        except StoreUnavailable as error:
            self.refused(error)
            raise

    def refused(self, error: StoreUnavailable) -> None:
        """A write ended with this error. Where this machine's disk is why, the next look says so."""
        if error.metadata.get("errno") in _FULL:
            self._refusal = error.message

    def free(self) -> int:
        """Free bytes of the disk for files being written. Raises OSError."""
        found = os.statvfs(self._folder)
        return found.f_bavail * found.f_frsize

    def look(self, trouble: str) -> None:
        """Look at the disk; ``trouble`` says why the catalogue cannot be used, "" where it can. Those who listen are told of a change.
        Raises OSError."""
        refusal, self._refusal = self._refusal, ""
        problem = trouble or refusal or ("the disk is nearly full" if self.free() < self._least else "")
        if (not problem) == self.enough:
            return
        self.enough = not problem
        if self.enough:
            log.warning("the store takes what is written again")
        else:
            log.error("the store does not take what is written: %s", problem)
        for tell in self._told:
            tell(self.enough)
