"""Files that a transaction removes: out of their places at once, gone for good when it has been committed, and back where it was not.

SQLite lets the next writer in before they are back. So whoever has moved one away holds the lock (flock(2)) of the folder in which they wait until
the transaction is committed or they are back, and whoever takes a file there, or a row without a file, for what a dead process left looks at that
lock first. It is one lock a transaction and none a file: thousands may go at once, which is more files than a process may have open. It is
taken within the transaction and given back without waiting for anything, so that nobody waits in a circle."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from symd.errors import StoreUnavailable
from symd.store.files import incoming_name, lock_folder, remove, remove_abandoned, sync_folder

log = logging.getLogger("symd.store")

_REMOVAL_SECONDS: Final = 10.0
"""How long a removal waits for one that was refused and is not undone yet."""
_MENDING_SECONDS: Final = 1.0
"""How long a start waits for it. It goes on then, and what it would have mended is done later."""


class RemovedFiles:
    """Those of one transaction. They wait in ``folder``, that of files on their way in: what a kill leaves there goes at the next start."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._moved: list[tuple[Path, Path]] = []
        self._lock: int | None = None

    def remove(self, path: Path) -> None:
        """Take a file out of its place, if it is there. Raises OSError, and ``StoreUnavailable`` where another removal does not end."""
        if self._lock is None:
            self._lock = self._locked()
        aside = self._folder / incoming_name()
        with suppress(FileNotFoundError):
            path.rename(aside)
            self._moved.append((path, aside))

    def put_back(self) -> None:
        """Into the places that nobody has taken meanwhile. Harmless when repeated."""
        folders = {path.parent for path, _ in self._moved}
        while self._moved:
            path, aside = self._moved.pop()
            try:
                if path.exists():
                    remove(aside)
                else:
                    aside.rename(path)
            except OSError as error:
                log.error("%s could not be put back: %s", path, error.strerror)  # noqa: TRY400 - it says all
        for folder in folders:
            with suppress(OSError):  # a full disk may refuse it, and a power cut leave them where they were
                sync_folder(folder)
        self._unlock()

    def forget(self) -> None:
        """Remove them for good. Nobody misses them any more: others may do it, too."""
        self._unlock()
        for path, aside in self._moved:
            try:
                remove(aside)
            except OSError as error:
                log.error("%s was removed, and waits as %s: %s", path, aside, error.strerror)  # noqa: TRY400 - it says all

    def _locked(self) -> int:
        lock = lock_folder(self._folder, _REMOVAL_SECONDS)
        if lock is None:
            raise StoreUnavailable(
                f"another process has not put back the files of a refused removal for {_REMOVAL_SECONDS:g} s",
                where=str(self._folder),
                hint=f"let it go on, or end it (fuser {self._folder} says which it is); then try again",
                metadata={"file": str(self._folder)},
            )
        return lock

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


@contextmanager
def removing(folder: Path) -> Iterator[RemovedFiles]:
    """For a transaction that begins and ends inside."""
    removed = RemovedFiles(folder)
    try:
        yield removed
    except BaseException:
        removed.put_back()
        raise
    removed.forget()


def all_in_place(folder: Path) -> bool:
    """Whether no removal has files moved away that may come back; asked within a transaction it stays so until that ends. Raises OSError."""
    try:
        lock = lock_folder(folder, _MENDING_SECONDS, shared=True)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return True  # nobody moves files there
    if lock is not None:
        os.close(lock)
    return lock is not None


def sweep_leftovers(folder: Path) -> int | None:
    """Remove what dead writers left in ``folder``; how many files went. None where that has to wait for a removal. Raises OSError."""
    found = list(folder.iterdir())  # before the question: what is moved there later may come back
    return remove_abandoned(found) if all_in_place(folder) else None
