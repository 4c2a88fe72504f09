"""Whether a store accepts writes, as of the last check, and listeners for changes of that.

A store in a folder refuses before a write fails: when few bytes are free, after a write was refused (a quota, a disk
that is read-only or fails), and while the catalogue cannot be written or the folder is away.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from symd.config import Limits
from symd.errors import StoreUnavailable
from symd.store.files import IncomingFile, disk
from symd.store.folder import StorePaths

log = logging.getLogger("symd.store")

REFUSED: Final = frozenset(errno.errorcode[each] for each in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO))
"""Errors with which a disk refuses what is written to it."""


class Writability(ABC):
    """Whether a store takes what is written, as of the last check. Safe to use from several threads but for
    checking, which is one thread's work."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[bool], None]] = []
        self.is_writable = True
        """What the last check found. True before the first."""

    def listen(self, listener: Callable[[bool], None]) -> None:
        """Call ``listener`` with ``is_writable`` now, and whenever it changes, from another thread then. It must not
        raise."""
        self._listeners.append(listener)
        listener(self.is_writable)

    @contextmanager
    def noticing(self) -> Iterator[None]:
        """Notice a disk that refuses what is written inside."""
        try:
            yield
        except StoreUnavailable as error:
            self.note_refusal(error)
            raise

    @abstractmethod
    def note_refusal(self, error: StoreUnavailable) -> None:
        """A write ended with this error. Where the disk is why, the next check says so."""

    @abstractmethod
    def free(self) -> int:
        """Free bytes of the disk. Raises OSError."""

    def _note_found(self, problem: str, of: str, also: str = "") -> None:
        """Note what a check found: ``problem`` is why writes may fail, "" where they will not. A change is told to the
        listeners and logged, with the name ``of`` what is written to, and ``also`` at the end of the line."""
        if (not problem) == self.is_writable:
            return
        self.is_writable = not problem
        if self.is_writable:
            log.warning("%s takes what is written again%s", of, also)
        else:
            log.error("%s does not take what is written: %s%s", of, problem, also)
        for listener in self._listeners:
            listener(self.is_writable)


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
        """A write ended with this error. Where the disk is why, the next check finds that it is not writable, until
        bytes can be written."""
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
            self._note_found(problem, root)
        else:
            free = self.free()
            self._note_found(self._problem(free), root, f"; {free} bytes are free")

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
        """Why ``Limits.free_disk`` bytes cannot be written, "" where they can: they are taken, a few are brought to the
        disk, and all are given back."""
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
