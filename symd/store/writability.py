"""Whether a store takes what is written, as of the last check, and listeners for when that changes."""

from __future__ import annotations

import errno
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from symd.errors import StoreUnavailable

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
        """Call ``listener`` with ``is_writable`` now, and whenever it changes, from another thread then. It must not raise."""
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

    def _found(self, problem: str, of: str, also: str = "") -> None:
        """Note what a check found: ``problem`` is why writes may fail, "" where they will not. A change is told to the listeners and logged, with
        the name ``of`` what is written to, and ``also`` at the end of the line."""
        if (not problem) == self.is_writable:
            return
        self.is_writable = not problem
        if self.is_writable:
            log.warning("%s takes what is written again%s", of, also)
        else:
            log.error("%s does not take what is written: %s%s", of, problem, also)
        for listener in self._listeners:
            listener(self.is_writable)
