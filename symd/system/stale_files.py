"""What killed processes left in a folder: their makers held locks (flock(2)) while they lived."""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

_OPENING: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def remove_stale_files(
    folder: Path, name: re.Pattern[str], is_kind: Callable[[int], bool], remove: Callable[[Path], object]
) -> int:
    """Let ``remove`` take away what is called so in ``folder``, is of the kind that its mode says (``stat.S_ISREG`` and the like), is this
    user's own, and is locked by nobody; how many there were. A folder that cannot be listed is left as it is."""
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
    """Let ``act`` do something to what is called so, under its lock, if that is wanted and locked by nobody; whether it did. Raises OSError
    where it cannot be opened, FileNotFoundError where it is gone."""
    if not is_wanted(path.lstat()):
        return False  # to open a device does something, and to open a pipe may take for ever
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
