"""Files of the operator that are read again when they change, without a restart."""

from __future__ import annotations

import logging
import os
import stat
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from symd.credential_file import read_credentials
from symd.errors import FailedPrecondition, SymdError

log = logging.getLogger("symd.service")

Value = TypeVar("Value")
_Version = tuple[tuple[int, int, int], ...]


class WatchedFiles(Generic[Value]):
    """What ``read`` makes of ``paths``, read again when one of them is another file, of another size or time, than before.

    ``read`` raises SymdError for what it cannot use: at the beginning whoever makes this hears it, later it is logged and what
    was read before stays. Safe to use from several threads.
    """

    def __init__(self, paths: Sequence[Path], read: Callable[[], Value]) -> None:
        self._paths = tuple(paths)
        self._read = read
        self._lock = threading.Lock()
        self._version = self._look()
        self._value = read()

    def value(self) -> Value:
        """What the files say now."""
        version = self._look()
        if version != self._version:
            self.read_again(version)
        return self._value

    def read_again(self, version: _Version | None = None) -> None:
        """Read the files, changed or not."""
        with self._lock:
            self._version = version or self._look()
            try:
                self._value = self._read()
            except SymdError as error:
                log.error("%s; what was read before stays in force", error)  # noqa: TRY400 - the operator's, no defect
            else:
                log.info("read %s again", " and ".join(map(str, self._paths)))

    def _look(self) -> _Version:
        return tuple(_version(path) for path in self._paths)


def read_private(path: Path, others: int, *, missing: str = "") -> bytes:
    """The content of a file that others may do nothing with of the mode bits ``others``.

    Raises FailedPrecondition where it cannot be read, belongs to another user, or lets others do so. ``missing`` is what to do where it is
    not there.
    """
    try:
        data, status = read_credentials(path)
    except OSError as error:
        hint = missing if isinstance(error, FileNotFoundError) else ""
        raise FailedPrecondition(f"it cannot be read: {error.strerror}", where=str(path), hint=hint) from error
    if status.st_uid not in (0, os.geteuid()):
        hint = f"chown {os.geteuid()} {path}" if os.geteuid() else f"run this as its owner, user {status.st_uid}"
        raise FailedPrecondition("it belongs to another user", where=str(path), hint=hint)
    if stat.S_IMODE(status.st_mode) & others:
        raise FailedPrecondition(
            f"other users may read or write it (mode {stat.S_IMODE(status.st_mode):04o})",
            where=str(path),
            hint=f"chmod {stat.S_IMODE(status.st_mode) & ~others:04o} {path}",
        )
    return data


def _version(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except OSError:
        return (0, 0, 0)
    return status.st_mtime_ns, status.st_ino, status.st_size
