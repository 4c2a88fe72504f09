"""The folders and symbolic links on the way to a file, and whose they are: where everybody may write, a stranger's link
leads anywhere, and whoever may change a folder decides what is found in it. Files that may be read only below some
folders are opened step by step, whatever links and names say.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from symd.errors import FailedPrecondition

MOST_LINKS: Final = 40
"""Symbolic links that the system follows on one way (path_resolution(7))."""


def passed(path: Path) -> Generator[tuple[Path, Path | None], None, Path]:
    """The folders in which the system looks up a name on the way to ``path``, each with the symbolic link that it found
    there or None (path_resolution(7)); at the end, where the way leads. Raises OSError."""
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
    """Where ``path`` leads, which need not be there, without links. Raises ``FailedPrecondition`` for a link in a
    folder that everybody may write in, unless it is this user's, root's or the folder's owner's (as Linux does with
    protected_symlinks, proc_sys_fs(5)), and OSError."""
    way = passed(path)
    while True:
        try:
            folder, link = next(way)
        except StopIteration as end:
            return Path(end.value)
        if link is not None:
            _check_owner(folder, link)


def still_resolved(path: Path) -> Path:
    """``path``, as ``resolved`` gave it a while ago. Raises ``FailedPrecondition`` where a link is on its way by
    now, and OSError."""
    leads = resolved(path)
    if leads != path:
        raise FailedPrecondition(
            f"a symbolic link to {leads} was put on the way meanwhile",
            where=str(path),
            hint="name the folder that is meant",
        )
    return path


def _check_owner(folder: Path, link: Path) -> None:
    status = folder.stat()
    if status.st_mode & stat.S_IWOTH and link.lstat().st_uid not in (0, os.geteuid(), status.st_uid):
        raise FailedPrecondition(
            "this is another user's symbolic link in a folder that everybody may write in",
            where=str(link),
            hint="name another file, or the one that it leads to",
        )


def replaceable(folder: Path) -> Path | None:
    """What is on the way to ``folder``, which is there, and lets others put another in its place: a folder that all
    may write in, without the sticky bit, so that every user may rename what is another's there; or a symbolic link of
    another user than this one and root. Raises OSError."""
    for above, link in passed(folder):
        mode = above.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return above
        if link is not None and link.lstat().st_uid not in (0, os.geteuid()):
            return link
    return None


def anothers(path: Path) -> Path | None:
    """The first folder or symbolic link on the way to ``path``, or what is there itself, that another user than this
    one and root owns, and so may replace what comes behind it; None where there is none. Raises OSError."""
    way = [each for step in passed(path) for each in step if each is not None]
    return next((each for each in (*way, path.resolve()) if _owner(each) not in (None, 0, os.geteuid())), None)


def _owner(path: Path) -> int | None:
    """The owner of a path; None where nothing is there yet."""
    try:
        return path.lstat().st_uid
    except FileNotFoundError:
        return None


def changeable(folder: Path) -> Path | None:
    """What on the way to ``folder`` lets others change what is run as this user: what ``replaceable`` finds, and
    also ``folder`` itself or a folder on the way that another user than this one and root owns, or that others of
    its group may write in; None where nothing does. Raises OSError."""
    found = replaceable(folder)
    if found is not None:
        return found
    way = dict.fromkeys((*(above for above, _ in passed(folder)), folder.resolve()))
    return next((each for each in way if _is_changeable(each.stat())), None)


def _is_changeable(status: os.stat_result) -> bool:
    if status.st_uid not in (0, os.geteuid()):
        return True
    if status.st_mode & stat.S_ISVTX:
        return False  # what is there already nobody else renames
    others = bool(status.st_mode & stat.S_IWGRP) and not _is_own_group(status.st_gid)
    return others or bool(status.st_mode & stat.S_IWOTH)


def _is_own_group(group: int) -> bool:
    """Whether this user alone is in it: distributions make such a group for each user, and let it write."""
    try:
        user, found = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return user.pw_gid == group and found.gr_name == user.pw_name and set(found.gr_mem) <= {user.pw_name}


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def read_below(root: str, path: str, largest: int) -> bytes | None:
    """The bytes of the regular file ``path``, which must begin with ``root``; None where there is none, it cannot be
    read, it is larger than ``largest`` bytes, or links lead out of ``root``. Hidden files and folders below ``root``,
    such as ``.env`` and ``.git``, hold no sources (``query.source_files.places``).

    Links are resolved first; then the way from the root is walked without following any, so that one that is put there
    meanwhile leads nowhere.
    """
    try:
        top, real = Path(root).resolve(strict=True), Path(path).resolve(strict=True)
        if any(part.startswith(".") for part in real.relative_to(top).parts):
            return None
        file = opened_below(top, real)
    except (OSError, ValueError, RuntimeError):  # RuntimeError: links in a circle
        return None
    with os.fdopen(file, "rb") as stream:
        try:
            data = stream.read(largest + 1) if os.fstat(file).st_size <= largest else None
        except OSError:
            return None
    return data if data is not None and len(data) <= largest else None


def opened_below(root: Path, path: Path) -> int:
    """A descriptor of the regular file ``path`` below ``root``; neither has links, and none that is put on the way
    meanwhile is followed. Raises ValueError for a path that is not below ``root``, and OSError."""
    *folders, name = path.relative_to(root).parts or (".",)
    with ExitStack() as stack:
        folder = os.open(root, _FOLDER)
        stack.callback(os.close, folder)
        for part in folders:
            folder = os.open(part, _FOLDER, dir_fd=folder)
            stack.callback(os.close, folder)
        file = os.open(name, _FILE, dir_fd=folder)
    mode = os.fstat(file).st_mode
    if stat.S_ISREG(mode):
        return file
    os.close(file)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "it is not a file but a pipe or a device", str(path))
