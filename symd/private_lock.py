"""Lock files that nobody else can open: whoever may open a file or a folder, if only to read it, may hold its lock (flock(2)) for ever, and so keep
everybody waiting who asks for it."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_OPENING: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PRIVATE: Final = 0o600


@contextmanager
def private_lock(path: Path) -> Iterator[None]:
    """Hold the lock of the file at ``path``, which is made where it is not there, and goes at the end. Raises OSError, also where it is another user's or others may open it."""
    handle = _locked(path)
    try:
        yield
    finally:
        with suppress(OSError):  # an empty file that stays is the next one's
            path.unlink()
        os.close(handle)


def _locked(path: Path) -> int:
    while True:
        handle = os.open(path, _OPENING, _PRIVATE)
        try:
            _check(os.fstat(handle), path)
            fcntl.flock(handle, fcntl.LOCK_EX)
            with suppress(FileNotFoundError):  # else the one who held it has removed it
                if os.path.samestat(os.fstat(handle), path.lstat()):
                    return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _check(status: os.stat_result, path: Path) -> None:
    own = status.st_uid in (0, os.geteuid()) and not status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    if not (own and stat.S_ISREG(status.st_mode)):
        raise OSError(errno.EPERM, "its lock is a file that others may open", str(path))
