"""Whether a store takes what is written: what the last look found, and those who want to hear of it."""

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
    """Safe to use from several threads but for looking, which is one thread's work."""

    def __init__(self) -> None:
        self._told: list[Callable[[bool], None]] = []
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

    @abstractmethod
    def refused(self, error: StoreUnavailable) -> None:
        """A write ended with this error. Where the disk is why, the next look says so."""

    @abstractmethod
    def free(self) -> int:
        """Free bytes of the disk. Raises OSError."""

    def _found(self, problem: str, of: str, also: str = "") -> None:
        """A look found why writes may fail, "" where they may not. Those who listen are told of a change, and the log of what it is: ``of`` is
        what takes no more, ``also`` what else one would like to know."""
        if (not problem) == self.enough:
            return
        self.enough = not problem
        if self.enough:
            log.warning("%s takes what is written again%s", of, also)
        else:
            log.error("%s does not take what is written: %s%s", of, problem, also)
        for tell in self._told:
            tell(self.enough)
