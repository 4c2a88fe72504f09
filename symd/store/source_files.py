"""Files on disk, opened only below the folders that somebody allowed, whatever links and names say."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import ExitStack
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def read_below(root: str, path: str, largest: int) -> bytes | None:
    """The bytes of the regular file ``path``, which must begin with ``root``; None where there is none, it cannot be
    read, it is larger than ``largest`` bytes, or links lead out of ``root``. Hidden files and folders below ``root``, such as ``.env`` and ``.git``, hold no sources (``query.source_text.places``).

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
    """A descriptor of the regular file ``path`` below ``root``; neither has links, and none that is put on the way meanwhile is followed. Raises
    ValueError for a path that is not below ``root``, and OSError."""
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
    raise OSError(errno.EINVAL, "it is no file but a pipe or a device", str(path))
