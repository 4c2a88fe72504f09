"""What to do where a folder of symd's own cannot be used: which variable names another, and what that has to have."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from symd.system.private_files import make_folder

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
        make_folder(folder, parents=True, exist_ok=True)
    except OSError as error:
        return _WHAT.get(error.errno or 0) not in (_OWN, _THERE)
    return os.access(folder, os.W_OK | os.X_OK)


def folder_hint(variable: str, error: OSError) -> str:
    """What to do where a folder of symd's own failed with ``error``: which folder ``variable`` should name."""
    return f"set {variable} to {_WHAT.get(error.errno or 0, 'another folder')}"
