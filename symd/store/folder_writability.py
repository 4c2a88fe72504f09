"""Whether a store's folder takes what is written: a daemon says so before writes fail where few bytes are free, after one was refused (a quota,
a disk that is read-only or fails), while the catalogue cannot be written or the folder is away, and again when that is over."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from symd.config import Limits
from symd.errors import StoreUnavailable
from symd.store.files import IncomingFile, disk
from symd.store.paths import StorePaths
from symd.store.writability import REFUSED, Writability

PROBE_SECONDS = 2.0
"""Seconds between two attempts to write, after a write was refused."""
_REFUSED_BY_SQLITE = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY")
_PROBE = bytes(4096)


class FolderWritability(Writability):
    """Free bytes of the disk that has a store, beside ``Limits.free_disk``, and whether writes succeed."""

    def __init__(
        self,
        paths: StorePaths,
        limits: Limits,
        clock: Callable[[], float] = time.monotonic,
        of_catalogue: Callable[[], str] = lambda: "",
    ) -> None:
        """``of_catalogue`` says why it takes nothing (``Catalogue.problem``)."""
        super().__init__()
        self._of_catalogue = of_catalogue
        self._paths = paths
        self._least = limits.free_disk
        self._clock = clock
        self._refusal = ""
        """Why a write was refused, until one succeeds."""
        self._probed = float("-inf")

    def note_refusal(self, error: StoreUnavailable) -> None:
        """A write ended with this error. Where the disk is why, the next check finds that it is not writable, until bytes can be
        written."""
        said = error.metadata
        if said.get("errno") in REFUSED or said.get("sqlite", "").startswith(_REFUSED_BY_SQLITE):
            self._refusal = error.message
            self._probed = self._clock()

    def free(self) -> int:
        """Free bytes of the disk. Raises OSError."""
        found = os.statvfs(self._paths.root)
        return found.f_bavail * found.f_frsize

    def check(self) -> None:
        """Ask the disk; listeners are told of a change. Raises OSError."""
        root = str(self._paths.root)
        if problem := self._of_catalogue():
            self._found(problem, root)
        else:
            free = self.free()
            self._found(self._problem(free), root, f"; {free} bytes are free")

    def _problem(self, free: int) -> str:
        """Why writes may fail, "" where they may not."""
        if os.statvfs(self._paths.root).f_flag & os.ST_RDONLY:
            return "the disk is read-only"
        if free < self._least:
            return "the disk is nearly full"
        if self._refusal and self._clock() - self._probed >= PROBE_SECONDS:
            self._refusal = self._probe()
            self._probed = self._clock()
        return self._refusal

    def _probe(self) -> str:
        """Why ``Limits.free_disk`` bytes cannot be written, "" where they can: they are taken, a few are brought to the disk, and all
        are given back."""
        try:
            with disk(self._paths.incoming):
                file = IncomingFile(self._paths.incoming)
                try:
                    file.write(_PROBE)
                    file.reserve(self._least)
                    file.sync()
                finally:
                    file.discard()
        except StoreUnavailable as error:
            return error.message
        return ""
