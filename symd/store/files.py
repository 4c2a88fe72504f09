"""Files that are either whole or not there: written beside their place, synced, renamed.

A file being written carries a lock, so that a sweep can tell a live writer's from a dead one's."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import mmap
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from symd.errors import StoreUnavailable

FOLDER_MODE = 0o700
FILE_MODE = 0o600
_PREFIX = "incoming-"
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@contextmanager
def disk(path: Path) -> Iterator[None]:
    """What the operating system refuses inside becomes ``StoreUnavailable`` that names ``path``."""
    try:
        yield
    except OSError as error:
        raise refusal(path, error) from error


def refusal(path: Path, error: OSError) -> StoreUnavailable:
    """The error of a disk that said no, with what to do about it."""
    full = error.errno in _FULL
    hint = "free some space or choose another store folder" if full else "choose a store folder that can be written"
    name = errno.errorcode.get(error.errno or 0, "unknown")
    reason = (error.strerror or str(error)).lower()
    return StoreUnavailable(
        f"the disk refused: {reason}", where=str(path), hint=hint, metadata={"file": str(path), "errno": name}
    )


def make_folder(path: Path, *, durable: bool = True) -> None:
    """Make a private folder, and those above it, that survive a power cut; one that is there stays as it is."""
    if path.is_dir():
        return
    make_folder(path.parent, durable=durable)
    with suppress(FileExistsError):
        path.mkdir(mode=FOLDER_MODE)
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
        view = memoryview(data).cast("B")
        while view.nbytes:
            view = view[os.write(self._handle, view) :]

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return os.fstat(self._handle).st_size

    def mapped(self) -> memoryview:
        """What is in the file, mapped read-only; it stays readable after the file is removed or replaced."""
        return mapped(self.path)

    def sync(self) -> None:
        """Bring the bytes to the disk; the slow part, best done before any lock is taken."""
        if self._durable:
            os.fsync(self._handle)

    def publish(self, path: Path) -> None:
        """Rename to ``path``, in place of what was there; on return the name survives a power cut."""
        make_folder(path.parent, durable=self._durable)
        self.path.replace(path)
        if self._durable:
            sync_folder(path.parent)
        self._close()

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
        path = folder / f"{_PREFIX}{secrets.token_hex(8)}"
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return path, handle
        os.close(handle)


def sweep(folder: Path) -> int:
    """Remove what dead writers left in ``folder``; returns how many files went."""
    return sum(_remove_if_abandoned(path) for path in list(folder.iterdir()) if path.name.startswith(_PREFIX))


@contextmanager
def turn(folder: Path, name: str) -> Iterator[bool]:
    """Hold a turn at something, which has this name, against every other process and thread; whether others had to be waited
    for. Its file is there as long as somebody holds it or waits, and ``sweep`` removes what the dead leave."""
    path, waited = folder / f"{_PREFIX}{name}", False
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waited = True
                fcntl.flock(handle, fcntl.LOCK_EX)
            if os.fstat(handle).st_nlink:  # who held it before has not removed it
                try:
                    yield waited
                finally:
                    path.unlink(missing_ok=True)
                return
        finally:
            os.close(handle)


def abandoned(path: Path) -> bool:
    """Whether a file being written is there and its writer is dead."""
    return _if_abandoned(path, lambda _: None)


def _remove_if_abandoned(path: Path) -> bool:
    return _if_abandoned(path, lambda found: found.unlink(missing_ok=True))


def _if_abandoned(path: Path, act: Callable[[Path], None]) -> bool:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        act(path)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True


@contextmanager
def locked(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold the lock file ``path`` against every other process and thread, or only against who does not share it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def mapped(path: Path) -> memoryview:
    """The whole file, mapped read-only. It stays readable after the file is removed or replaced."""
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))


def sha256_of(path: Path) -> str:
    """Lower-case hexadecimal SHA-256 of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def size_of(path: Path) -> int | None:
    """Bytes in the file, None when there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None
