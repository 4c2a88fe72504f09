"""Files of a catalogue on disk: which file was at a path when it was opened, and whether it still is; and a copy of a
catalogue on another disk.

A store's folder may be moved away, removed or replaced while it is used, and what is then written by its path is not in
the open catalogue. A copy is read where SQLite cannot make the files that it needs beside a catalogue: its disk is
full, or read-only.
"""

from __future__ import annotations

import os
import shutil
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from symd.errors import StoreUnavailable
from symd.store.files import disk
from symd.system.private_files import make_temporary_folder, open_to_write, temp_dir


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


_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the folder is private
_PREFIX = "symd-catalogue-"
_PIECE = 1 << 20
"""Bytes that are copied at a time."""


class CatalogueCopy:
    """A copy of a catalogue that cannot be opened where it is. ``path`` is the copy. It goes with this object."""

    def __init__(self, original: Path, error: StoreUnavailable, copy: Callable[[Path, Path], None]) -> None:
        """``original`` must not be open in this process; ``error`` is why it cannot be; ``copy`` copies it. Raises
        ``StoreUnavailable``."""
        self._error = error
        try:
            self._copy_to(_SHARED_MEMORY, original, copy)
        except StoreUnavailable:  # it is not there, or full
            self._copy_to(temp_dir(), original, copy)

    def _copy_to(self, place: Path, original: Path, copy: Callable[[Path, Path], None]) -> None:
        with disk(place):
            folder = make_temporary_folder(place, _PREFIX)
            try:
                self.path = folder.path / original.name
                copy(original, self.path)
            except BaseException:
                folder.remove()
                raise
        self._remove = weakref.finalize(self, folder.remove)

    def unwritable(self) -> StoreUnavailable:
        """Why nothing can be written, for one caller."""
        error = self._error
        return StoreUnavailable(error.message, where=error.where, hint=error.hint, metadata=error.metadata)

    def remove(self) -> None:
        """Harmless when repeated. Who has it open goes on reading."""
        self._remove()


def copy_with_log(original: Path, to: Path) -> None:
    """Copy a catalogue's file and its log of writes, byte by byte, for this user alone: right as long as nobody writes.
    The log comes first: whoever closes the catalogue meanwhile brings it into the file, where it does no harm again.
    Raises OSError."""
    for suffix in ("-wal", ""):
        with (
            suppress(FileNotFoundError),
            Path(f"{original}{suffix}").open("rb") as file,
            open_to_write(Path(f"{to}{suffix}")) as target,
        ):
            shutil.copyfileobj(file, target, _PIECE)
