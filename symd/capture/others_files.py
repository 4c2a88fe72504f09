"""Files that another user's program names: opened only where that user may read them too. Whoever captures such a
program may be root, and would read for it what it may not.

Source: path_resolution(7), inode(7) for the rights, proc(5) for what /proc/self/fd opens."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

from symd.system.symlinks import MOST_LINKS

UNKNOWN_USER: Final = -1
"""The number in place of a user who is not known, whose rights are those that everybody has."""
_HELD: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_READ: Final = 4
_SEARCH: Final = 1


def is_trusted(user: int) -> bool:
    """Whether a user may read whatever this process may: it is this process's, or root."""
    return user in (0, os.geteuid())


def opened_for(user: int, path: str, root: str = "/") -> int:
    """A descriptor of the regular file at ``path`` below ``root``, which ``user`` may read, through folders that
    ``user`` may search. Each is held while it is looked at, so that nobody puts another in its place meanwhile. Raises
    OSError.

    Which groups the user is in is not asked: to all but a file's owner only those rights count that its group and all
    others have."""
    with _Way(root) as way:
        names = [*reversed(Path("/", path).parts[1:])]
        while names:
            _check(way.status(), user, _SEARCH, path)
            names += reversed(way.step(names.pop()))
        status = way.status()
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", path)
        _check(status, user, _READ, path)
        return os.open(f"/proc/self/fd/{way.at}", _OPEN)


def _check(status: os.stat_result, user: int, right: int, path: str) -> None:
    mode = status.st_mode
    rights = mode >> 6 if status.st_uid == user else mode >> 3 & mode
    if not rights & right:
        raise PermissionError(errno.EACCES, "its program's user may not read it", path)


class _Way:
    """Where a way through folders has come to: ``at`` is a descriptor (O_PATH)."""

    def __init__(self, root: str) -> None:
        self._root = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._links = 0
        try:
            self.at = os.dup(self._root)
        except OSError:
            os.close(self._root)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in (self.at, self._root):
            with suppress(OSError):
                os.close(descriptor)

    def status(self) -> os.stat_result:
        """The status of what is there."""
        return os.fstat(self.at)

    def step(self, name: str) -> tuple[str, ...]:
        """Go to ``name``; the names that a symbolic link of that name leads through instead. Raises OSError."""
        if name == ".." and os.path.samestat(self.status(), os.fstat(self._root)):
            return ()
        found = os.open(name, _HELD, dir_fd=self.at)
        if not stat.S_ISLNK(os.fstat(found).st_mode):
            self._go(found)
            return ()
        with _closed(found):
            target = Path(os.readlink("", dir_fd=found))
        self._links += 1
        if self._links > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
        if target.is_absolute():
            self._go(os.dup(self._root))
        return target.parts[target.is_absolute() :]

    def _go(self, descriptor: int) -> None:
        os.close(self.at)
        self.at = descriptor


@contextmanager
def _closed(descriptor: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(descriptor)
