"""What stood at a path when it was opened, and whether it still does. A store's folder may be moved away, removed or replaced while it is
used: what is then written by its path is not where the open catalogue is."""

from __future__ import annotations

import os
import weakref
from pathlib import Path


class OpenedPath:
    """A file or a folder that is held open, so that no other gets its number. Safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        self._path = path
        # to close any other descriptor of a catalogue would give up SQLite's locks (fcntl(2))
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        self._close = weakref.finalize(self, os.close, handle)
        self._status = os.fstat(handle)

    def close(self) -> None:
        """Hold it open no longer. Harmless when repeated."""
        self._close()

    def change(self) -> str:
        """What has become of it, for a person; "" where it is still at its path. Raises OSError."""
        try:
            status = self._path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return "was moved away or removed"
        return "" if os.path.samestat(status, self._status) else "was replaced by another"
