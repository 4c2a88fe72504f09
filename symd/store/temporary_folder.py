"""Temporary folders, locked (flock(2)) while their maker lives, however it ends. What a killed process left is removed
by the next one that makes a folder.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import secrets
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from symd.system.private_files import make_folder
from symd.system.temporary_folders import remove_stale_files

log = logging.getLogger("symd.store")

_OPENING: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_RANDOM_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class TemporaryFolder:
    """Private, and empty when it is made; ``lock`` is an open descriptor."""

    path: Path
    lock: int

    def remove(self) -> None:
        """Remove it with all that is in it, if it has no other name by now. Once only."""
        _remove(self.path)
        os.close(self.lock)


def make_temporary_folder(parent: Path, prefix: str) -> TemporaryFolder:
    """A new one in ``parent``; this user's with that prefix whose makers are dead go. Raises OSError."""
    name = re.compile(rf"{re.escape(prefix)}[0-9a-f]{{{2 * _RANDOM_BYTES}}}")
    remove_stale_files(parent, name, stat.S_ISDIR, _remove)
    while True:
        path = parent / f"{prefix}{secrets.token_hex(_RANDOM_BYTES)}"
        try:
            make_folder(path)
            with suppress(FileNotFoundError):  # it was taken for an abandoned one before it was locked
                lock = _lock(path)
                if path.is_dir():
                    return TemporaryFolder(path, lock)
                os.close(lock)
        except FileExistsError:
            raise  # it is somebody else's
        except BaseException:  # a signal may come before anybody has the folder who would remove it
            _remove(path)
            raise


def _lock(path: Path) -> int:
    lock = os.open(path, _OPENING)
    with suppress(OSError):  # a disk that has no locks: nobody gets one to remove it either
        fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def _remove(path: Path) -> None:
    """Remove all of it that can be removed; the log says what stays."""
    refused: list[BaseException] = []
    shutil.rmtree(path, onerror=lambda _function, _path, info: refused.append(info[1]))
    if refused and path.exists():
        log.warning("%s stays, and takes room: %s", path, refused[0])
