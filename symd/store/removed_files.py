"""Files that a transaction removes: out of their places at once, gone for good when it has been committed, and back where it was not. They are locked
(flock(2)) meanwhile, as files on their way in are: another process that opens the store would take them for what a dead one left."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from symd.store.files import incoming_name, remove, sync_folder

log = logging.getLogger("symd.store")

_OPENING: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MOST_LOCKED: Final = 256
"""Files that are held open at a time. ``put_back`` is called before anybody else may write, but for a COMMIT that the disk refused: the lock is for that."""


class RemovedFiles:
    """Those of one transaction. They wait in ``folder``, that of files on their way in: what a kill leaves there goes at the next start."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._moved: list[tuple[Path, Path]] = []
        self._locks: list[int] = []

    def remove(self, path: Path) -> None:
        """Take a file out of its place, if it is there. Raises OSError."""
        aside = self._folder / incoming_name()
        self._lock(path)
        try:
            path.rename(aside)
        except FileNotFoundError:
            return
        self._moved.append((path, aside))

    def put_back(self) -> None:
        """Into the places that nobody has taken meanwhile. Harmless when repeated."""
        while self._moved:
            path, aside = self._moved.pop()
            try:
                if path.exists():
                    remove(aside)
                else:
                    aside.rename(path)
                    self._make_durable(path)
            except OSError as error:
                log.error("%s could not be put back: %s", path, error.strerror)  # noqa: TRY400 - it says all
        self._unlock()

    def forget(self) -> None:
        """Remove them for good."""
        for path, aside in self._moved:
            try:
                remove(aside)
            except OSError as error:
                log.error("%s was removed, and waits as %s: %s", path, aside, error.strerror)  # noqa: TRY400 - it says all
        self._unlock()

    def _lock(self, path: Path) -> None:
        """Where no more files can be opened, or the disk has no locks, it goes without."""
        with suppress(OSError):
            if len(self._locks) < _MOST_LOCKED:
                self._locks.append(os.open(path, _OPENING))
                fcntl.flock(self._locks[-1], fcntl.LOCK_SH | fcntl.LOCK_NB)

    def _unlock(self) -> None:
        while self._locks:
            os.close(self._locks.pop())

    def _make_durable(self, path: Path) -> None:
        """A power cut leaves what was put back in its place: among files on their way in it would go. A full disk may refuse that."""
        with suppress(OSError):
            sync_folder(path.parent)


@contextmanager
def removing(folder: Path) -> Iterator[RemovedFiles]:
    """For a transaction that begins and ends inside, and whose ``undo`` is ``put_back``."""
    removed = RemovedFiles(folder)
    try:
        yield removed
    except BaseException:
        removed.put_back()
        raise
    removed.forget()
