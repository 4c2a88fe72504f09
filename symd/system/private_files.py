"""Files, folders and sockets of symd's own, which nobody else can open: the modes 0600 and 0700 hold whatever the umask
is. Where a folder of symd's own cannot be used, the error names the variable that chooses another. Output that a user
names is written by ``atomic_output``.

Files of credentials that an operator or a user names (access files, tokens, certificates, keys) are read here too. A
path may lead to anything; to open a FIFO would wait forever, and a device has no end.

Temporary folders and files of processes that may be killed: their makers hold locks (flock(2)) while they live, which
the kernel releases however they end, so that what is unlocked is nobody's and is removed. Folders of one child process
are removed with it, and swept when the process that was to remove them was killed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from symd.errors import StoreUnavailable
from symd.system.symlinks import changeable

if TYPE_CHECKING:
    import socket


FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
"""What nobody else has: also the umask of symd's children."""
OPENING: Final = os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""A file is made where it is not there, no link is followed, and no pipe waited for."""


def temp_dir() -> Path:
    """The folder for temporary files: the one that $TMPDIR names, or one that the system has; /tmp where another user
    may change what is in it, and so put links or other bytes in the place of what is made there. Raises
    StoreUnavailable where none can be written, as in a container whose file system is read-only."""
    try:
        place = Path(tempfile.gettempdir())
        return place if changeable(place) is None else Path("/tmp")  # noqa: S108 - not chosen by us otherwise
    except OSError as error:
        raise StoreUnavailable(
            "no folder for temporary files can be written",
            hint="set TMPDIR to a folder that you may write in, such as /dev/shm",
        ) from error


def new_folder(prefix: str, place: Path | None = None) -> Path:
    """A new folder in ``place``, or in the one for temporary files. Raises OSError, and StoreUnavailable as
    ``temp_dir``."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place or temp_dir()))
    _keep_owners_rights(folder)
    return folder


@contextmanager
def temporary_folder(prefix: str = "symd-", place: Path | None = None) -> Iterator[Path]:
    """A new folder in ``place``, or in the one for temporary files, that is removed at the end. Raises OSError, and
    StoreUnavailable as ``temp_dir``."""
    with tempfile.TemporaryDirectory(prefix=prefix, dir=place or temp_dir()) as name:
        Path(name).chmod(FOLDER_MODE)
        yield Path(name)


def make_folder(folder: Path, *, parents: bool = False, exist_ok: bool = False) -> None:
    """Make a folder, with ``parents`` those above it that are not there, private ones too. One that is there stays as
    it is, with ``exist_ok``. Raises OSError."""
    if parents and not folder.parent.exists():
        make_folder(folder.parent, parents=True, exist_ok=True)
    try:
        folder.mkdir(mode=FOLDER_MODE)
    except FileExistsError:
        if not exist_ok or not folder.is_dir():
            raise
    else:
        _keep_owners_rights(folder)


def _keep_owners_rights(folder: Path) -> None:
    """Give the owner of a new folder what the umask took. Another process may have removed it as one that nobody holds
    (``remove_stale_files``): whoever locks it finds that out."""
    with suppress(FileNotFoundError):
        if stat.S_IMODE(folder.stat().st_mode) & FOLDER_MODE != FOLDER_MODE:
            folder.chmod(FOLDER_MODE)


def open_private(path: Path | str, flags: int) -> int:
    """A descriptor of the file at ``path``, which is made where it is not there (or, with O_EXCL, must not be there). A
    file of this user's that others could open is private from now on. No link is followed, and no pipe waited for.
    Raises OSError."""
    handle = os.open(path, flags | OPENING, FILE_MODE)
    try:
        status = os.fstat(handle)
        if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) != FILE_MODE and stat.S_ISREG(status.st_mode):
            os.fchmod(handle, FILE_MODE)
    except BaseException:
        os.close(handle)
        raise
    return handle


def new_file(path: Path | str) -> int:
    """A descriptor for reading and writing of a file that is made. Raises OSError, FileExistsError where something has
    the name."""
    return open_private(path, os.O_RDWR | os.O_EXCL)


def open_to_write(path: Path, buffering: int = -1) -> BinaryIO:
    """A stream into the file at ``path``, which is made or made empty. Raises OSError."""
    return open(open_private(path, os.O_WRONLY | os.O_TRUNC), "wb", buffering)


def write_bytes(path: Path, data: bytes) -> None:
    """Make a file of ``data``, or put it in the place of what a file had. Raises OSError."""
    with open_to_write(path) as stream:
        stream.write(data)


def bind_socket(listener: socket.socket, path: Path | str) -> None:
    """Bind a Unix socket, which has its mode from the beginning: on Linux the name takes that of the descriptor, less
    the umask. Raises OSError."""
    os.fchmod(listener.fileno(), FILE_MODE)
    listener.bind(str(path))
    Path(path).chmod(FILE_MODE)


@contextmanager
def private_umask() -> Iterator[None]:
    """For what a library makes by itself. The umask is all threads': nothing else may make files meanwhile that others
    shall read."""
    before = os.umask(OTHERS | stat.S_IXUSR)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def private_lock(path: Path) -> Iterator[None]:
    """Hold the lock of the file at ``path``, which is made where it is not there, and goes at the end. Raises OSError,
    also where it is another user's or others may open it: whoever may open a file or a folder, if only to read it, may
    hold its lock (flock(2)) forever, and so keep everybody waiting who asks for it."""
    handle = _open_locked(path)
    try:
        yield
    finally:
        with suppress(OSError):  # an empty file that stays is the next one's
            path.unlink()
        os.close(handle)


def _open_locked(path: Path) -> int:
    while True:
        handle = os.open(
            path, os.O_RDWR | OPENING, FILE_MODE
        )  # one that others have open already stays as it is, and is refused
        try:
            _check(os.fstat(handle), path)
            fcntl.flock(handle, fcntl.LOCK_EX)
            with suppress(FileNotFoundError):  # else the one who held it has removed it
                if os.path.samestat(os.fstat(handle), path.lstat()):
                    return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _check(status: os.stat_result, path: Path) -> None:
    own = status.st_uid in (0, os.geteuid()) and not status.st_mode & OTHERS
    if not (own and stat.S_ISREG(status.st_mode)):
        raise OSError(errno.EPERM, "its lock is a file that others may open", str(path))


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
    """Make the folder where it is not there. Whether files can be made in it then; a disk that is full is another
    matter."""
    try:
        make_folder(folder, parents=True, exist_ok=True)
    except OSError as error:
        return _WHAT.get(error.errno or 0) not in (_OWN, _THERE)
    return os.access(folder, os.W_OK | os.X_OK)


def folder_hint(variable: str, error: OSError) -> str:
    """What to do where a folder of symd's own failed with ``error``: which folder ``variable`` should name."""
    return f"set {variable} to {_WHAT.get(error.errno or 0, 'another folder')}"


LARGEST: Final = 16 << 20
"""Bytes. An access file of this size has more than a hundred thousand lines."""
CERTIFICATE: Final = re.compile(rb"-----BEGIN (?:\w+ )?CERTIFICATE-----")
"""How a certificate in PEM begins."""
_PRIVATE_KEY: Final = re.compile(rb"-----BEGIN (?:\w+ )?PRIVATE KEY-----")
_DER: Final = b"\x30"
"""How a certificate and a key in DER begin (ITU-T X.690: a sequence)."""
_READING: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def read_credentials(path: str | os.PathLike[str]) -> tuple[bytes, os.stat_result]:
    """The content of a regular file, and whose it is. Raises OSError, with a text in ``strerror``, for anything else
    and for a file of more than ``LARGEST`` bytes."""
    descriptor = os.open(path, _READING)
    with open(descriptor, "rb") as stream:  # noqa: PTH123 - of a descriptor
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        data = stream.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise OSError(errno.EFBIG, f"larger than {LARGEST >> 20} MiB, and no file of credentials is", str(path))
    return data, status


def no_certificate(data: bytes) -> str:
    """Why the content of a file is no certificate in PEM; "" where it has one."""
    return _lacks(data, CERTIFICATE, "certificate", _PRIVATE_KEY, "private key")


def no_private_key(data: bytes) -> str:
    """Why the content of a file is no private key in PEM; "" where it has one."""
    return _lacks(data, _PRIVATE_KEY, "private key", CERTIFICATE, "certificate")


def _lacks(data: bytes, wanted: re.Pattern[bytes], name: str, other: re.Pattern[bytes], other_name: str) -> str:
    if wanted.search(data):
        return ""
    if other.search(data):
        return f"this is a {other_name} and no {name}"
    return f"the file has no {name} in PEM{_instead(data)}"


def _instead(data: bytes) -> str:
    if not data.strip():
        return ": it is empty"
    return ": it may be DER, of which openssl x509 or openssl pkey -inform DER makes PEM" if data[:1] == _DER else ""


def no_password() -> str:
    """What ``SSLContext.load_cert_chain`` is given, which otherwise asks at the terminal. Raises ValueError."""
    raise ValueError("the key has a password")


_OPENING_LOCKED: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def remove_stale_files(
    folder: Path, name: re.Pattern[str], is_kind: Callable[[int], bool], remove: Callable[[Path], object]
) -> int:
    """Let ``remove`` take away what is called so in ``folder``, is of the kind that its mode says (``stat.S_ISREG`` and
    the like), is this user's own, and is locked by nobody; how many there were. A folder that cannot be listed is left
    as it is."""
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


def if_unlocked(
    path: Path,
    act: Callable[[Path], object],
    is_wanted: Callable[[os.stat_result], bool] = lambda status: stat.S_ISREG(status.st_mode),
) -> bool:
    """Let ``act`` do something to what is called so, under its lock, if that is wanted and locked by nobody; whether it
    did. Raises OSError where it cannot be opened, FileNotFoundError where it is gone."""
    if not is_wanted(path.lstat()):
        return False  # to open a device does something, and to open a pipe may take forever
    handle = os.open(path, _OPENING_LOCKED)
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


_CHILD_FOLDER: Final = re.compile("symd-(driver|tool|daemon)-[a-z0-9_]{8}")
"""A folder's name as mkdtemp makes it: a folder that somebody called otherwise is his."""


@dataclass(frozen=True, slots=True)
class TemporaryFolder:
    """Private, and empty when it is made; ``lock`` is an open descriptor."""

    path: Path
    lock: int

    def remove(self) -> None:
        """Remove all of it that can be removed, if it has no other name by now. Once only."""
        _remove(self.path)
        os.close(self.lock)


def make_temporary_folder(parent: Path, prefix: str) -> TemporaryFolder:
    """A new one in ``parent``; this user's with that prefix whose makers are dead go. Raises OSError."""
    name = re.compile(rf"{re.escape(prefix)}[a-z0-9_]{{8}}")
    remove_stale_files(parent, name, stat.S_ISDIR, _remove)
    return _make_locked(prefix, parent)


@contextmanager
def child_folder(kind: str) -> Iterator[Path]:
    """An empty folder for a child of the ``kind`` "driver" or "tool", or for a "daemon" itself. Raises OSError where
    none can be made, and StoreUnavailable where there is no place for temporary files."""
    folder = _make_locked(f"symd-{kind}-", temp_dir())
    try:
        yield folder.path
    finally:
        folder.remove()


def sweep() -> int:
    """Remove the folders of children whose parents are gone, and that are this user's; how many there were."""
    try:
        place = temp_dir()
    except StoreUnavailable:
        return 0
    return remove_stale_files(place, _CHILD_FOLDER, stat.S_ISDIR, _remove)


def _make_locked(prefix: str, place: Path) -> TemporaryFolder:
    """A new folder, and the descriptor that holds its lock. One that a sweep took in between is left to it."""
    while True:
        path = new_folder(prefix, place)
        try:
            with suppress(FileNotFoundError):
                lock = os.open(path, _OPENING_LOCKED | os.O_DIRECTORY)
                with suppress(OSError):  # a disk that has no locks: nobody gets one to remove it either
                    fcntl.flock(lock, fcntl.LOCK_EX)
                if path.is_dir():
                    return TemporaryFolder(path, lock)
                os.close(lock)
        except BaseException:  # a signal may come before anybody has the folder who would remove it
            _remove(path)
            raise


def _remove(folder: Path) -> None:
    """Remove all of it that can be removed. Whoever wrote there may have nested folders deeper than paths and calls go,
    and made them unreadable: each is made readable and moved to the top, and then emptied."""
    found = [folder]
    for each in found:  # which grows
        with suppress(OSError), os.scandir(each) as entries:
            for entry in list(entries):
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        moved = folder / os.urandom(16).hex()
                        Path(entry.path).chmod(0o700)
                        Path(entry.path).rename(moved)
                        found.append(moved)
                    else:
                        Path(entry.path).unlink()
    for each in reversed(found):
        with suppress(OSError):
            each.rmdir()
