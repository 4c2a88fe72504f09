"""Whether the disk takes what is written: a daemon says so before writes fail where few bytes are free, after one was refused (a quota,
a disk that is read-only or fails), and again when there is room."""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from symd.config import Limits
from symd.errors import StoreUnavailable
from symd.store.files import IncomingFile, disk
from symd.store.paths import StorePaths

log = logging.getLogger("symd.store")

PROBE_SECONDS = 2.0
"""Seconds between two attempts to write, after a write was refused."""
_REFUSED = frozenset(errno.errorcode[number] for number in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO))
_REFUSED_BY_SQLITE = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY")
_PROBE = bytes(4096)


class DiskRoom:
    """Free bytes of the disk that has a store, beside ``Limits.free_disk``, and whether writes succeed."""

    def __init__(self, paths: StorePaths, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._paths = paths
        self._least = limits.free_disk
        self._clock = clock
        self._told: list[Callable[[bool], None]] = []
        self._refusal = ""
        """Why a write was refused, until one succeeds."""
        self._probed = float("-inf")
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
        """A write ended with this error. Where the disk is why, the next look finds that there is not enough room, until bytes can be
        written."""
        said = error.metadata
        if said.get("errno") in _REFUSED or said.get("sqlite", "").startswith(_REFUSED_BY_SQLITE):
            self._refusal = error.message
            self._probed = self._clock()

    def free(self) -> int:
        """Free bytes of the disk. Raises OSError."""
        found = os.statvfs(self._paths.root)
        return found.f_bavail * found.f_frsize

    def look(self) -> None:
        """Ask the disk; those who listen are told of a change. Raises OSError."""
        free = self.free()
        problem = self._problem(free)
        if (not problem) == self.enough:
            return
        self.enough = not problem
        if self.enough:
            log.warning("%s can be written again: %d bytes are free", self._paths.root, free)
        else:
            log.error("%s may not take what is written: %s; %d bytes are free", self._paths.root, problem, free)
        for tell in self._told:
            tell(self.enough)

    def _problem(self, free: int) -> str:
        """Why writes may fail, "" where they may not."""
        if free < self._least:
            return "the disk is nearly full"
        if os.statvfs(self._paths.root).f_flag & os.ST_RDONLY:
            return "the disk is read-only"
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
