"""Who may change a store's folder: one that another user may change could hold other modules, and answers, from one moment to the next."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path
from typing import Final

from symd.errors import FailedPrecondition
from symd.system.symlinks import replaceable, resolved

log = logging.getLogger("symd.store")

OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
"""What nobody but the store's user may do with what stands in its folder: whoever may open it, if only to read it, may hold its lock (flock(2))."""
_WRITING: Final = stat.S_IWGRP | stat.S_IWOTH


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


def keep_from_others(folder: Path) -> None:
    """Let nobody else open what is in a folder, as one is that was copied without its mode. Raises OSError."""
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & OTHERS:
        folder.chmod(mode & ~OTHERS)
        log.warning(
            "%s had the mode %04o, with which other users may open it: it has %04o now", folder, mode, mode & ~OTHERS
        )


def check_private(folder: Path) -> None:
    """Raises ``FailedPrecondition`` where ``folder`` is not this user's, or others may write in it or put another folder in its
    place. Raises OSError."""
    check_owner(folder)
    if not folder.exists():
        resolved(folder)  # it would be made where a stranger's link leads
        return
    if folder.stat().st_mode & _WRITING:
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


def _kept_from_others(above: Path) -> str:
    return "name the folder itself" if above.is_symlink() else f"chmod o-w {above} (or +t)"
