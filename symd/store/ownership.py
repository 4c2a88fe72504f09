"""Whose a store's folder is: one that another user may change could hold other modules, and answers, from one moment to the next."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from symd.errors import FailedPrecondition

_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_MOST_LINKS = 40
"""Symbolic links that the system follows on one way (path_resolution(7))."""


def check_owner(folder: Path) -> None:
    """Raises ``FailedPrecondition`` where ``folder`` is there and belongs to another user than the one of this process. Root is no
    exception: what root writes in a user's store, that user's daemon could not open any more. Raises OSError."""
    try:
        owner = folder.stat().st_uid
    except FileNotFoundError:
        return
    if owner != os.geteuid():
        hint = f"run this as user {owner}, or choose another store folder with --store"
        raise FailedPrecondition("the store belongs to another user", where=str(folder), hint=hint)


def check_private(folder: Path) -> None:
    """Raises ``FailedPrecondition`` where ``folder`` is not this user's, or others may write in it or put another folder in its
    place. Raises OSError."""
    check_owner(folder)
    if not folder.exists():
        return
    if folder.stat().st_mode & _OTHERS:
        raise FailedPrecondition(
            "other users may change the store",
            where=str(folder),
            hint=f"chmod go-w {folder}, or choose another with --store",
        )
    above = replaceable(folder)
    if above is not None:
        raise FailedPrecondition(
            "other users may put another folder in the place of the store's",
            where=str(above),
            hint=f"{_kept_from_others(above)}, or choose another store folder with --store",
        )


def replaceable(folder: Path) -> Path | None:
    """What stands on the way to ``folder``, which is there, and lets others put another in its place: a folder that all may write in, without the
    sticky bit, so that every user may rename what is another's there; or a symbolic link of another user than this one and root. Raises OSError."""
    for above, link in _passed(folder):
        mode = above.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return above
        if link is not None and link.lstat().st_uid not in (0, os.geteuid()):
            return link
    return None


def _passed(folder: Path) -> Iterator[tuple[Path, Path | None]]:
    """The folders in which the system looks up a name on the way to ``folder``, each with the symbolic link that it found there or None
    (path_resolution(7)). Raises OSError."""
    at, links = Path("/"), 0
    names = [*reversed(folder.absolute().parts[1:])]
    while names:
        name = names.pop()
        found = at / name
        link = found if name != ".." and found.is_symlink() else None
        yield at, link
        if link is None:
            at = at.parent if name == ".." else found
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(folder))
        target = link.readlink()
        at = Path("/") if target.is_absolute() else at
        names += reversed(target.parts[target.is_absolute() :])


def _kept_from_others(above: Path) -> str:
    return "name the folder itself" if above.is_symlink() else f"chmod o-w {above} (or +t)"
