"""Whether a shared store takes what is written: its catalogue answers, and this machine's disk has room for what passes through."""

from __future__ import annotations

import os
from pathlib import Path

from symd.config import Limits
from symd.errors import StoreUnavailable
from symd.store.files import disk, make_folder
from symd.store.writability import REFUSED, Writability


class SharedWritability(Writability):
    """Whether a store that several daemons share takes what is written, for one of these daemons."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        super().__init__()
        self._folder = folder
        self._least = limits.free_disk
        self._refusal = ""
        """Why this machine's disk refused, until the next check."""

    def note_refusal(self, error: StoreUnavailable) -> None:
        """A write ended with this error. Where this machine's disk is why, the next check says so."""
        if error.metadata.get("errno") in REFUSED:
            self._refusal = error.message

    def free(self) -> int:
        """Free bytes of the disk for files being written. Raises OSError."""
        make_folder(self._folder, durable=False)  # it lies in a cache, which somebody may have emptied
        found = os.statvfs(self._folder)
        return found.f_bavail * found.f_frsize

    def check(self, trouble: str) -> None:
        """Ask the disk; ``trouble`` says why the catalogue cannot be used, "" where it can. Listeners are told of a change.
        Raises ``StoreUnavailable`` where the disk gives no answer."""
        refusal, self._refusal = self._refusal, ""
        with disk(self._folder):
            problem = trouble or refusal or ("the disk is nearly full" if self.free() < self._least else "")
        self._found(problem, "the store")
