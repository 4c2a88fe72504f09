"""Folders and files of processes that may be killed: their makers hold locks (flock(2)) while they live, which the
kernel releases however they end, so that what is unlocked is nobody's and is removed. Folders of one child process are
removed with it, and swept when the process that was to remove them was killed.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from symd.errors import StoreUnavailable
from symd.system.private_files import new_folder, temp_dir

_OPENING: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def remove_stale_files(
    folder: Path, name: re.Pattern[str], is_kind: Callable[[int], bool], remove: Callable[[Path], object]
) -> int:
    """Let ``remove`` take away what is called so in ``folder``, is of the kind that its mode says (``stat.S_ISREG`` and
    the like), is this user's own, and is locked by nobody; how many there were. A folder that cannot be listed is left
    as it is."""
    found: list[Path] = []
    with suppress(OSError), os.scandir(folder) as entries:
        found += [Path(entry.path) for entry in entries if name.fullmatch(entry.name)]

    def is_own(status: os.stat_result) -> bool:
        return is_kind(status.st_mode) and status.st_uid == os.geteuid()

    removed = 0
    for each in found:
        with suppress(OSError):  # it is gone, or cannot be opened
            removed += if_unlocked(each, remove, is_own)
    return removed


def _is_regular(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode)


def if_unlocked(
    path: Path, act: Callable[[Path], object], is_wanted: Callable[[os.stat_result], bool] = _is_regular
) -> bool:
    """Let ``act`` do something to what is called so, under its lock, if that is wanted and locked by nobody; whether it
    did. Raises OSError where it cannot be opened, FileNotFoundError where it is gone."""
    if not is_wanted(path.lstat()):
        return False  # to open a device does something, and to open a pipe may take forever
    handle = os.open(path, _OPENING)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        status = os.fstat(handle)
        is_still_there = os.path.samestat(status, path.lstat())  # else what has the name now is somebody else's
        if is_still_there and is_wanted(status):
            act(path)
            return True
    except BlockingIOError:
        pass
    finally:
        os.close(handle)
    return False


_NAME: Final = re.compile("symd-(driver|tool|daemon)-[a-z0-9_]{8}")
"""A folder's name as mkdtemp makes it: a folder that somebody called otherwise is his."""


@dataclass(frozen=True, slots=True)
class TemporaryFolder:
    """Private, and empty when it is made; ``lock`` is an open descriptor."""

    path: Path
    lock: int

    def remove(self) -> None:
        """Remove all of it that can be removed, if it has no other name by now. Once only."""
        _remove(self.path)
        os.close(self.lock)


def make_temporary_folder(parent: Path, prefix: str) -> TemporaryFolder:
    """A new one in ``parent``; this user's with that prefix whose makers are dead go. Raises OSError."""
    name = re.compile(rf"{re.escape(prefix)}[a-z0-9_]{{8}}(?:[0-9a-f]{{8}})?")  # up to symd 0.1: 16 digits
    remove_stale_files(parent, name, stat.S_ISDIR, _remove)
    return _make_locked(prefix, parent)


@contextmanager
def child_folder(kind: str) -> Iterator[Path]:
    """An empty folder for a child of the ``kind`` "driver" or "tool", or for a "daemon" itself. Raises OSError where
    none can be made, and StoreUnavailable where there is no place for temporary files."""
    folder = _make_locked(f"symd-{kind}-", temp_dir())
    try:
        yield folder.path
    finally:
        folder.remove()


def sweep() -> int:
    """Remove the folders of children whose parents are gone, and that are this user's; how many there were."""
    try:
        place = temp_dir()
    except StoreUnavailable:
        return 0
    return remove_stale_files(place, _NAME, stat.S_ISDIR, _remove)


def _make_locked(prefix: str, place: Path) -> TemporaryFolder:
    """A new folder, and the descriptor that holds its lock. One that a sweep took in between is left to it."""
    while True:
        path = new_folder(prefix, place)
        try:
            with suppress(FileNotFoundError):
                lock = os.open(path, _OPENING | os.O_DIRECTORY)
                with suppress(OSError):  # a disk that has no locks: nobody gets one to remove it either
                    fcntl.flock(lock, fcntl.LOCK_EX)
                if path.is_dir():
                    return TemporaryFolder(path, lock)
                os.close(lock)
        except BaseException:  # a signal may come before anybody has the folder who would remove it
            _remove(path)
            raise


def _remove(folder: Path) -> None:
    """Remove all of it that can be removed. Whoever wrote there may have nested folders deeper than paths and calls go,
    and made them unreadable: each is made readable and moved to the top, and then emptied."""
    found = [folder]
    for each in found:  # which grows
        with suppress(OSError), os.scandir(each) as entries:
            for entry in list(entries):
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        moved = folder / os.urandom(16).hex()
                        Path(entry.path).chmod(0o700)
                        Path(entry.path).rename(moved)
                        found.append(moved)
                    else:
                        Path(entry.path).unlink()
    for each in reversed(found):
        with suppress(OSError):
            each.rmdir()
