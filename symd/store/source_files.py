"""Source files on disk, read only below the folders that somebody allowed, whatever links and names say."""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def read_below(root: str, path: str, largest: int) -> bytes | None:
    """The bytes of the regular file ``path``, which must begin with ``root``; None where there is none, it cannot be
    read, it is larger than ``largest`` bytes, or links lead out of ``root``.

    Links are resolved first; then the way from the root is walked without following any, so that one that is put there
    meanwhile leads nowhere.
    """
    try:
        top, real = Path(root).resolve(strict=True), Path(path).resolve(strict=True)
        parts = real.relative_to(top).parts
        return _walked(top, parts, largest) if parts else None
    except (OSError, ValueError, RuntimeError):  # RuntimeError: links in a circle
        return None


def _walked(top: Path, parts: tuple[str, ...], largest: int) -> bytes | None:
    with ExitStack() as stack:
        folder = os.open(top, _FOLDER)
        stack.callback(os.close, folder)
        for part in parts[:-1]:
            folder = os.open(part, _FOLDER, dir_fd=folder)
            stack.callback(os.close, folder)
        file = os.open(parts[-1], _FILE, dir_fd=folder)
        with os.fdopen(file, "rb") as stream:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode) or found.st_size > largest:
                return None
            data = stream.read(largest + 1)
            return data if len(data) <= largest else None
