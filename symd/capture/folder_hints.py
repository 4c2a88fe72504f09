"""What to do where a folder of symd's own cannot be used: which variable names another, and what that has to have."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

_ROOM: Final = "a folder with room"
_OWN: Final = "a folder that you may write in"
_THERE: Final = "a folder that can be made, or is there"
_WHAT: Final = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EFBIG: _ROOM,
    errno.EACCES: _OWN,
    errno.EPERM: _OWN,
    errno.EROFS: _OWN,
    errno.ENOENT: _THERE,
    errno.ENOTDIR: _THERE,
}


def ensure_writable(folder: Path) -> bool:
    """Make the folder where it is not there. Whether files can be made in it then; a disk that is full is another matter."""
    try:
        make_own_folder(folder)
    except OSError as error:
        return _WHAT.get(error.errno or 0) not in (_OWN, _THERE)
    return os.access(folder, os.W_OK | os.X_OK)


def make_own_folder(folder: Path) -> None:
    """Make a folder and those above it, where they are not there: others may not write in them, whatever the umask says. Raises OSError."""
    for each in (*reversed(folder.parents), folder):
        if not each.exists():
            each.mkdir(mode=0o755, exist_ok=True)
    folder.mkdir(exist_ok=True)  # which says what is wrong where it is none


def folder_hint(variable: str, error: OSError) -> str:
    """By what the system said."""
    return f"set {variable} to {_WHAT.get(error.errno or 0, 'another folder')}"
