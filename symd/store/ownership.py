"""Whose a store's folder is: one that another user may change could hold other modules, and answers, from one moment to the next."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from symd.errors import FailedPrecondition
from symd.symbolic_links import replaceable, resolved

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


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
        resolved(folder)  # it would be made where a stranger's link leads
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


def _kept_from_others(above: Path) -> str:
    return "name the folder itself" if above.is_symlink() else f"chmod o-w {above} (or +t)"
