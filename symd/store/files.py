"""Files that are either whole or not there: written beside their place, synced, renamed.

A file being written carries a lock, so that a sweep can tell a live writer's from a dead one's."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import logging
import mmap
import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from symd.errors import StoreUnavailable, SymdError
from symd.system import private_files
from symd.system.messages import os_error_text, refusal
from symd.system.private_files import if_unlocked

log = logging.getLogger("symd.store")

_PREFIX = "incoming-"
_SPACE = "free some space or choose another store folder"
_USER = "do this as the user to whom it belongs, or choose another store folder"
_HINTS: Mapping[int, str] = {
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: f"the user's quota is used up: {_SPACE}",
    errno.EFBIG: _SPACE,
    errno.EROFS: "mount the disk for writing, or choose another store folder",
    errno.EIO: "the disk fails: look into the system's log, and have a copy of the store's folder",
    errno.EACCES: _USER,
    errno.EPERM: _USER,
    errno.ENOENT: "a folder of this path, or what it names, is not there: look whether it was moved or removed, or choose another path",
    errno.ENOTDIR: "there is a file where the path has a folder: choose a path through folders alone",
    errno.EISDIR: "there is a folder where a file should be: move it away, or choose another path",
    errno.EEXIST: "something of another kind is there: move it away, or choose another path",
    errno.ELOOP: "a symbolic link on the way leads back to itself: remove it, or choose another path",
    errno.ENAMETOOLONG: "choose a shorter path",
    errno.EMFILE: "the process has as many files open as it may: raise its limit (ulimit -n, LimitNOFILE= of systemd)",
    errno.ENFILE: "the machine has as many files open as it may: end other programs, or raise fs.file-max",
}
"""What to do, by what the system said."""
NOT_MADE = "the folder cannot be made"
"""What went wrong where ``make_folder`` fails (``disk``)."""
_SILENT_SECONDS = 1.0
"""How long a start waits for a lock without a word."""
_LOCK_POLL = 0.02
"""Seconds."""
_READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@contextmanager
def disk(path: Path, what: str = "") -> Iterator[None]:
    """What the operating system refuses inside becomes ``StoreUnavailable`` that names ``path`` and says ``what`` went
    wrong."""
    try:
        yield
    except OSError as error:
        raise disk_error(path, error, what) from error


def disk_error(path: Path, error: OSError, what: str = "") -> StoreUnavailable:
    """The error of a system that said no, with what to do about it."""
    hint = _HINTS.get(error.errno or 0, "choose a store folder that can be written")
    name = errno.errorcode.get(error.errno or 0, "unknown")
    message = f"{what}: {os_error_text(error)}" if what else refusal(error)
    return StoreUnavailable(message, where=str(path), hint=hint, metadata={"file": str(path), "errno": name})


def make_folder(path: Path, *, durable: bool = True) -> None:
    """Make a private folder, and those above it, that survive a power cut; one that is there stays as it is."""
    if path.is_dir():
        return
    make_folder(path.parent, durable=durable)
    with suppress(FileExistsError):
        private_files.make_folder(path)
    if durable:
        sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make renames and removals in a folder durable."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class IncomingFile:
    """A file on its way in: ``write`` it, then ``publish`` it under its name or ``discard`` it."""

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self._durable = durable
        self.path, self._handle = _create_locked(folder)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append. Raises ``StoreUnavailable`` where the disk refuses."""
        view = memoryview(data).cast("B")
        with disk(self.path):
            while view.nbytes:
                view = view[os.write(self._handle, view) :]

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return os.fstat(self._handle).st_size

    def mapped(self) -> memoryview:
        """What is in the file, mapped read-only; it stays readable after the file is removed or replaced."""
        return mapped(self.path)

    def pieces(self, size: int) -> Iterator[bytes]:
        """What is in the file, ``size`` bytes at a time; it stays readable after the file is removed. Read, not mapped:
        the pages of a mapping count as this process's memory until the mapping goes."""
        return _pieces(open(open_file(self.path), "rb"), size)

    def sync(self) -> None:
        """Bring the bytes to the disk; the slow part, best done before any lock is taken."""
        if self._durable:
            os.fsync(self._handle)

    def publish(self, path: Path, *, survives_power_cut: bool = True) -> None:
        """Rename to ``path``, in place of what was there; on return the name survives a power cut, where it need."""
        durable = self._durable and survives_power_cut
        make_folder(path.parent, durable=durable)
        self.path.replace(path)
        if durable:
            sync_folder(path.parent)
        self._close()

    def shared(self) -> int:
        """A descriptor that holds a shared lock in the place of the writer's, also after the file is published: who has
        it uses the file."""
        fcntl.flock(self._handle, fcntl.LOCK_SH)
        return os.dup(self._handle)

    def discard(self) -> None:
        """Remove the file if it was not published. Harmless when repeated."""
        if self._handle >= 0:
            self.path.unlink(missing_ok=True)
            self._close()

    def _close(self) -> None:
        os.close(self._handle)
        self._handle = -1


def _create_locked(folder: Path) -> tuple[Path, int]:
    """A new file that this process holds the lock of; made again when a sweep came between creation and lock."""
    while True:
        path = folder / incoming_name()
        handle = private_files.new_file(path)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return path, handle
        os.close(handle)


def incoming_name() -> str:
    """A new name of a file that ``sweep`` removes where nobody has it locked."""
    return f"{_PREFIX}{secrets.token_hex(8)}"


def sweep(folder: Path) -> int:
    """Remove what dead writers left in ``folder``; returns how many files went."""
    return sum(_if_abandoned(path, Path.unlink) for path in folder.iterdir() if path.name.startswith(_PREFIX))


@contextmanager
def turn(folder: Path, name: str, seconds: float, late: Callable[[], SymdError]) -> Iterator[bool]:
    """Hold a turn at something, which has this name, against every other process and thread; whether others had to be
    waited for. Its file is there as long as somebody holds it or waits; ``sweep`` removes what the dead leave. Raises
    the error that ``late`` makes where it was not had for so many seconds."""
    path, waited, until = folder / f"{_PREFIX}{name}", False, time.monotonic() + seconds
    while True:
        handle = private_files.open_private(path, os.O_RDWR)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waited = True
                if not _locked_until(handle, fcntl.LOCK_EX, until):
                    raise late() from None
            if os.fstat(handle).st_nlink:  # who held it before has not removed it
                try:
                    yield waited
                finally:
                    path.unlink(missing_ok=True)
                return
        finally:
            os.close(handle)


def _locked_until(handle: int, how: int, until: float | None) -> bool:
    """Whether the lock was got before that time; None waits for as long as it takes."""
    if until is None:
        fcntl.flock(handle, how)
        return True
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(handle, how | fcntl.LOCK_NB)
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(_LOCK_POLL)


def abandoned(path: Path) -> bool:
    """Whether a file being written is there and its writer is dead."""
    return _if_abandoned(path, lambda _: None)


def _if_abandoned(path: Path, act: Callable[[Path], None]) -> bool:
    try:
        return if_unlocked(path, act)
    except FileNotFoundError:
        return False


LOCK_SECONDS = 60.0
"""The longest a start waits for the lock of a store's catalogue, which another process holds while it makes, mends or
changes it."""


@contextmanager
def locked(path: Path, *, shared: bool = False, seconds: float | None = None) -> Iterator[None]:
    """Hold the lock file ``path`` against every other process and thread, or only against who does not share it.

    Waits for as long as it takes, or so many seconds, and then says in the log what for; raises StoreUnavailable when
    they are over."""
    handle = private_files.open_private(path, os.O_RDWR)
    try:
        how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        if seconds is not None and not _locked_until(handle, how, time.monotonic() + min(seconds, _SILENT_SECONDS)):
            log.warning("waiting for %s, which another process has locked; for %g s at most", path, seconds)
        until = None if seconds is None else time.monotonic() + max(seconds - _SILENT_SECONDS, 0.0)
        if not _locked_until(handle, how, until):
            raise StoreUnavailable(
                f"another process has held the store's lock for {seconds:g} s",
                where=str(path),
                hint=f"end it (fuser {path} says which it is)",
                metadata={"file": str(path)},
            )
        yield
    finally:
        os.close(handle)


@contextmanager
def locked_if_possible(path: Path, seconds: float) -> Iterator[None]:
    """Hold the lock file ``path`` against everybody else where it is there and may be read at least, and is free within
    so many seconds; nothing is made or written for it."""
    with ExitStack() as stack:
        with suppress(OSError):
            handle = open_file(path)
            stack.callback(os.close, handle)
            _locked_until(handle, fcntl.LOCK_EX, time.monotonic() + seconds)
        yield


def open_file(path: Path) -> int:
    """A descriptor to read a regular file. Raises FileNotFoundError where there is none: a link, a FIFO, a device or a
    folder is nothing that symd put there, and to open some of them would wait forever."""
    if not stat.S_ISREG(path.lstat().st_mode):
        raise _no_file(path)
    try:
        handle = os.open(path, _READING)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link or a socket that has just been put there
            raise _no_file(path) from None
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise _no_file(path)
    return handle


def _no_file(path: Path) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "no regular file", str(path))


def mapped(path: Path) -> memoryview:
    """The whole file, mapped read-only. It stays readable after the file is removed or replaced. Raises as
    ``open_file``."""
    handle = open_file(path)
    try:
        size = os.fstat(handle).st_size
        return memoryview(mmap.mmap(handle, size, prot=mmap.PROT_READ) if size else b"")
    finally:
        os.close(handle)


def _pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    with file:
        while piece := file.read(size):
            yield piece


def sha256_of(path: Path) -> str:
    """Lower-case hexadecimal SHA-256 of a file, read in pieces. Raises as ``open_file``."""
    with open(open_file(path), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def size_of(path: Path) -> int | None:
    """Bytes in the regular file, None when there is none."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def move_into(folder: Path, path: Path, name: str) -> Path:
    """Move the file ``path`` into ``folder``, which is made where it is not there, in place of what has the name
    there."""
    make_folder(folder)
    return path.replace(folder / name)


def remove(path: Path) -> None:
    """Remove a file, a link, or a folder with all that is in it; nothing where there is nothing."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
