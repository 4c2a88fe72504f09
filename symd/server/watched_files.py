"""Files of the operator that are read again when they change, without a restart."""

from __future__ import annotations

import errno
import logging
import os
import pwd
import stat
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from shlex import quote
from typing import Final, Generic, TypeVar

from symd.errors import FailedPrecondition, SymdError, Unavailable
from symd.system.messages import os_error_text
from symd.system.private_files import read_credentials

log = logging.getLogger("symd.server")

Value = TypeVar("Value")
_FileVersion = tuple[int, int, int, int]
_Version = tuple[_FileVersion, ...]

_OF_THE_FILE: Final = frozenset(
    (
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.EACCES,
        errno.EPERM,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.EINVAL,
        errno.EFBIG,
        errno.ENXIO,
    )
)
"""What the system says of a path, its rights or what lies there, and ``read_credentials`` of what no file of
credentials is. Anything else may pass by itself: no descriptor or memory that is free, a network's disk that does not
answer."""


class WatchedFiles(Generic[Value]):
    """What ``read`` makes of ``paths``, read again when one of them is another file, of another size, time or mode,
    than before.

    ``read`` raises SymdError for what it cannot use: at the beginning whoever makes this hears it, later it is logged
    and what was read before stays. After Unavailable the files are read again the next time too, changed or not: what
    they say may be that somebody is let in no longer. Safe to use from several threads.
    """

    def __init__(self, paths: Sequence[Path], read: Callable[[], Value]) -> None:
        self._paths = tuple(paths)
        self._read = read
        self._lock = threading.Lock()
        self._version = self._look()
        """What was read, or refused for what it says."""
        self._last_error = ""
        """Why the last attempt failed, where it did."""
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
            version = version or self._look()
            try:
                self._value = self._read()
            except Unavailable as error:
                if str(error) != self._last_error:  # each call tries it again
                    self._tell(error)
            except SymdError as error:
                self._version = version
                self._tell(error)
            else:
                self._version, self._last_error = version, ""
                log.info("read %s again", " and ".join(map(str, self._paths)))

    def _tell(self, error: SymdError) -> None:
        self._last_error = str(error)
        log.error("%s; what was read before stays in force", error)

    def _look(self) -> _Version:
        return tuple(_version(path) for path in self._paths)


def read_private(path: Path, others: int, *, missing: str = "") -> bytes:
    """The content of a file that others may do nothing with of the mode bits ``others``.

    Raises FailedPrecondition where it cannot be read, belongs to another user, or lets others do so, and Unavailable
    where it may be read later as it is. ``missing`` is what to do where it is not there.
    """
    try:
        data, status = read_credentials(path)
    except OSError as error:
        hint = missing if isinstance(error, FileNotFoundError) else ""
        raise unreadable(path, error, hint=hint) from error
    if status.st_uid not in (0, os.geteuid()):
        hint = _as_owner(status.st_uid)
        if os.geteuid():
            hint += f", or let root chown {os.geteuid()} {quote(str(path))}"
        raise FailedPrecondition(f"it belongs to another user, {_user(status.st_uid)}", where=str(path), hint=hint)
    if stat.S_IMODE(status.st_mode) & others:
        change = f"chmod {stat.S_IMODE(status.st_mode) & ~others:04o} {quote(str(path))}"
        mine = os.geteuid() in (0, status.st_uid)
        raise FailedPrecondition(
            f"other users may read or write it (mode {stat.S_IMODE(status.st_mode):04o})",
            where=str(path),
            hint=change if mine else f"it is of {_user(status.st_uid)}, who can: {change}",
        )
    return data


def unreadable(path: Path, error: OSError, *, option: str = "", hint: str = "") -> SymdError:
    """The error for a file that cannot be read: FailedPrecondition where that lasts until somebody changes it, else
    Unavailable. ``option`` is the one that names it, where that has to be said."""
    kind = FailedPrecondition if error.errno in _OF_THE_FILE else Unavailable
    message = f"it cannot be read: {os_error_text(error)}"
    if not hint and isinstance(error, PermissionError):
        hint = _refused_to_whom(path)
    return kind(f"{option}: {message}" if option else message, where=str(path), hint=hint)


def _refused_to_whom(path: Path) -> str:
    """What to do where the system lets this user not read a file."""
    try:
        owner = path.stat().st_uid
    except OSError:
        return "a folder on the way is closed to you: do this as a user who may look into it"
    return f"chmod u+r {quote(str(path))}" if owner == os.geteuid() else f"it is of {_user(owner)}: {_as_owner(owner)}"


def _as_owner(uid: int) -> str:
    return f"do this as {_user(uid)}"


def _user(uid: int) -> str:
    try:
        return f"user {uid} ({pwd.getpwuid(uid).pw_name})"
    except KeyError:
        return f"user {uid}"


def _version(path: Path) -> _FileVersion:
    """The time of the last change of its mode or owner counts too (st_ctime): others' rights are why a file is refused,
    and taking them away mends it."""
    try:
        status = path.stat()
    except OSError:
        return (0, 0, 0, 0)
    return status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_size
