"""The symbolic links on the way to a file, and whose they are: where everybody may write, a stranger's link leads where he likes."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator
from pathlib import Path
from typing import Final

from symd.errors import FailedPrecondition

MOST_LINKS: Final = 40
"""Symbolic links that the system follows on one way (path_resolution(7))."""


def passed(path: Path) -> Generator[tuple[Path, Path | None], None, Path]:
    """The folders in which the system looks up a name on the way to ``path``, each with the symbolic link that it found there or None
    (path_resolution(7)); at the end, where the way leads. Raises OSError."""
    at, links = Path("/"), 0
    names = [*reversed(path.absolute().parts[1:])]
    while names:
        name = names.pop()
        found = at / name
        link = found if name != ".." and found.is_symlink() else None
        yield at, link
        if link is None:
            at = at.parent if name == ".." else found
            continue
        links += 1
        if links > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        target = link.readlink()
        at = Path("/") if target.is_absolute() else at
        names += reversed(target.parts[target.is_absolute() :])
    return at


def resolved(path: Path) -> Path:
    """Where ``path`` leads, which need not be there, without links. Raises ``FailedPrecondition`` for a link in a folder that everybody may write
    in, unless it is this user's, root's or the folder's owner's (as Linux does with protected_symlinks, proc_sys_fs(5)), and OSError."""
    way = passed(path)
    while True:
        try:
            folder, link = next(way)
        except StopIteration as end:
            return Path(end.value)
        if link is not None:
            _check_owner(folder, link)


def _check_owner(folder: Path, link: Path) -> None:
    status = folder.stat()
    if status.st_mode & stat.S_IWOTH and link.lstat().st_uid not in (0, os.geteuid(), status.st_uid):
        raise FailedPrecondition(
            "this is another user's symbolic link in a folder that everybody may write in",
            where=str(link),
            hint="name another file, or the one that it leads to",
        )
