"""What killed processes left in a folder: their makers held locks (flock(2)) while they lived."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

_OPENING: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def remove_leftovers(
    folder: Path, name: re.Pattern[str], is_kind: Callable[[int], bool], remove: Callable[[Path], object]
) -> None:
    """Let ``remove`` take away what is called so in ``folder``, is of the kind that its mode says (``stat.S_ISREG`` and the like), is this
    user's own, and is locked by nobody. A folder that cannot be listed is left as it is."""
    found: list[Path] = []
    with suppress(OSError), os.scandir(folder) as entries:
        found += [Path(entry.path) for entry in entries if name.fullmatch(entry.name)]
    for each in found:
        with suppress(OSError):  # it is in use, gone, or cannot be opened
            _remove_unlocked(each, is_kind, remove)


def _remove_unlocked(path: Path, is_kind: Callable[[int], bool], remove: Callable[[Path], object]) -> None:
    handle = os.open(path, _OPENING)
    try:
        status = os.fstat(handle)
        if is_kind(status.st_mode) and status.st_uid == os.geteuid():
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(path)
    finally:
        os.close(handle)
