"""Files that a transaction removes: out of their places at once, gone for good when it has been committed, and back
where it was not.

The name of a module's file says there which module it is. One that cannot be put back, or whose process was killed, is
put back by ``recovery`` as long as the catalogue has the module.

SQLite lets the next writer in before they are back. So whoever has moved one away holds the lock (flock(2)) of the
folder in which they wait until the transaction is committed or they are back, and whoever takes a file there, or a row
without a file, for what a dead process left looks at that lock first. It is one lock a transaction and none a file:
thousands may go at once, which is more files than a process may have open. It is taken within the transaction and given
back without waiting for anything, so that nobody waits in a circle."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from symd.errors import StoreUnavailable
from symd.model.identities import Digest, is_digest
from symd.store.files import incoming_name, lock_folder, remove, remove_abandoned, sync_folder
from symd.system.messages import os_error_text

log = logging.getLogger("symd.store")

_REMOVAL_SECONDS: Final = 10.0
"""How long a removal waits for one that was refused and is not undone yet."""
_MENDING_SECONDS: Final = 1.0
"""How long a start waits for a removal that was refused and is not undone yet. It goes on then, and what it would
have mended is done later."""
_ATTEMPTS: Final = 5
"""How often it is tried to put files back."""
_PAUSE_SECONDS: Final = 0.1
"""Seconds between two attempts."""
_MODULE: Final = re.compile(r"incoming-removed-(\w+)-\w+")
"""A module's file that waits."""


class RemovedFiles:
    """The files that one transaction removes. They wait in ``folder``, that of files on their way in, where the next
    start finds what a kill leaves."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._moved: list[tuple[Path, Path]] = []
        self._lock: int | None = None

    def remove(self, path: Path) -> None:
        """Take a file out of its place, if it is there. Raises OSError, and ``StoreUnavailable`` where another removal
        does not end."""
        if self._lock is None:
            self._lock = self._locked()
        aside = self._folder / _waiting_name(path)
        with suppress(FileNotFoundError):
            path.rename(aside)
            self._moved.append((path, aside))

    def put_back(self) -> bool:
        """Put files back into the places that nobody has taken meanwhile, the lock being held. What the disk refuses is
        tried again, and then left to ``recovery``: whether nothing is. Harmless when repeated."""
        folders = {path.parent for path, _ in self._moved}
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(_PAUSE_SECONDS)
            self._put_back_once()
            if not self._moved:
                break
        is_all, self._moved = not self._moved, []
        for folder in folders:
            with suppress(OSError):  # a full disk may refuse it, and a power cut leave them where they were
                sync_folder(folder)
        self._unlock()
        return is_all

    def _put_back_once(self) -> None:
        """What is refused stays among those that are moved."""
        left = []
        for path, aside in self._moved:
            try:
                put_in_place(aside, path)
            except OSError as error:
                log.error("%s could not be put back: %s", path, os_error_text(error))  # noqa: TRY400 - it says all
                left.append((path, aside))
        self._moved = left

    def forget(self) -> None:
        """Remove them for good. Nobody misses them any more: others may do it, too."""
        self._unlock()
        for path, aside in self._moved:
            try:
                remove(aside)
            except OSError as error:
                log.error("%s was removed, and waits as %s: %s", path, aside, os_error_text(error))  # noqa: TRY400 - it says all

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


def put_in_place(aside: Path, path: Path) -> bool:
    """Put a file that waits back into its place, and remove it where there is one already; whether it was put back.
    Raises OSError."""
    if path.exists():
        remove(aside)
        return False
    aside.rename(path)
    return True


def _waiting_name(path: Path) -> str:
    """A name for a file that waits; that of a module's file (``StorePaths.module``) says which module it is."""
    is_module = is_digest(path.name) and path.parent.name == path.name[:2]
    return incoming_name(f"removed-{path.name}-" if is_module else "")


def waiting_modules(folder: Path) -> list[tuple[Digest, Path]]:
    """The modules' files among those that wait in ``folder``. Raises OSError."""
    found = ((_MODULE.fullmatch(path.name), path) for path in sorted(folder.iterdir()))
    return [(Digest(match[1]), path) for match, path in found if match and is_digest(match[1])]


@contextmanager
def removing(folder: Path, on_left: Callable[[], None] = lambda: None) -> Iterator[RemovedFiles]:
    """Remove files with a transaction that begins and ends inside. ``on_left`` is called where the transaction is
    refused and not all files could be put back."""
    removed = RemovedFiles(folder)
    try:
        yield removed
    except BaseException:
        if not removed.put_back():
            on_left()
        raise
    removed.forget()


def all_in_place(folder: Path) -> bool:
    """Whether no removal has files moved away that may come back; asked within a transaction it stays so until that
    ends. Raises OSError."""
    try:
        lock = lock_folder(folder, _MENDING_SECONDS, shared=True)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return True  # nobody moves files there
    if lock is not None:
        os.close(lock)
    return lock is not None


def sweep_leftovers(folder: Path, is_wanted: Callable[[Digest], bool]) -> int | None:
    """Remove what dead writers left in ``folder``, but no file of a removed module that ``is_wanted``, as one is that
    the catalogue has; how many files went. None where that has to wait for a removal. Raises OSError."""
    found = list(folder.iterdir())  # before the question: what is moved there later may come back
    if not all_in_place(folder):
        return None
    wanted = {path for digest, path in waiting_modules(folder) if is_wanted(digest)}
    return remove_abandoned(path for path in found if path not in wanted)
