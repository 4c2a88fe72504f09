"""Folders that belong to one child: made for it, removed with it, and swept when whoever was to remove them was killed.

The folder of a child that runs is locked (flock(2)) by its parent, and the kernel unlocks it however the parent ends. So an
unlocked one is nobody's.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from symd.errors import StoreUnavailable
from symd.system.private_files import new_folder, temp_dir
from symd.system.stale_files import remove_stale_files

_NAME: Final = re.compile("symd-(driver|tool|daemon)-[a-z0-9_]{8}")
"""As mkdtemp names them: a folder that somebody called otherwise is his."""


@contextlib.contextmanager
def child_folder(kind: str) -> Iterator[Path]:
    """An empty folder for a child of the ``kind`` "driver" or "tool", or for a "daemon" itself. Raises OSError where none can be made, and
    StoreUnavailable where there is no place for temporary files."""
    folder, lock = _locked(f"symd-{kind}-")
    try:
        yield folder
    finally:
        _remove(folder)
        os.close(lock)


def sweep() -> int:
    """Remove the folders of children whose parents are gone, and that are this user's; how many there were."""
    try:
        place = temp_dir()
    except StoreUnavailable:
        return 0
    return remove_stale_files(place, _NAME, stat.S_ISDIR, _remove)


def _locked(prefix: str) -> tuple[Path, int]:
    """A new folder and the descriptor that holds its lock. One that a sweep took in between is left to it."""
    while True:
        folder = new_folder(prefix)
        try:
            lock = _opened(folder)
        except FileNotFoundError:
            continue
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            return folder, lock
        os.close(lock)


def _opened(path: str | Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _remove(folder: Path) -> None:
    """Remove all of it that can be removed. Whoever wrote there may have nested folders deeper than paths and calls go, and made
    them unreadable: each is made readable and moved to the top, and then emptied."""
    found = [folder]
    for each in found:  # which grows
        with contextlib.suppress(OSError), os.scandir(each) as entries:
            for entry in list(entries):
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        moved = folder / os.urandom(16).hex()
                        Path(entry.path).chmod(0o700)
                        Path(entry.path).rename(moved)
                        found.append(moved)
                    else:
                        Path(entry.path).unlink()
    for each in reversed(found):
        with contextlib.suppress(OSError):
            each.rmdir()
