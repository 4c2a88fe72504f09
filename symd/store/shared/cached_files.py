"""Whole files of an object storage in a folder of this machine.

The folder may be shared by threads, processes and daemons. What keeps them from harm are locks on files (``flock``):

* a file being fetched is locked by its fetcher, so that nobody takes it for a leftover;
* whoever uses a file holds a shared lock on it, and what goes is locked for that alone: what is open stays.

When a file was used is its time of change. Nothing is synced: what a power cut spoils has not the bytes that it should,
and is fetched anew.

Files go when there are too many, the least recently used first; those in use stay. A folder with other files in it is
refused as a cache, since whatever is in one may be removed."""

from __future__ import annotations

import errno
import fcntl
import logging
import mmap
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

from symd.config import MIB, Limits
from symd.errors import (
    DataLoss,
    FailedPrecondition,
    LimitExceeded,
    StoreUnavailable,
    SymdError,
    error_from_dict,
    error_to_dict,
)
from symd.store.files import NOT_MADE, IncomingFile, disk, make_folder, open_file, remove, sweep
from symd.store.folder import check_private, keep_from_others
from symd.store.shared.object_storage import ObjectStorage, checked_name, keeps_promise, promised_digest, sizes
from symd.system.private_files import if_unlocked

log = logging.getLogger("symd.store")

_LOOKS: Final = 8
"""How often a file is looked for that others remove as soon as it is here."""
_SEEN: Final = 100_000
"""Files of which this process remembers that it has compared their bytes, or when the storage had them."""

_FULL: Final = frozenset({"ENOSPC", "EDQUOT"})
"""How a disk says that it has no room for a file."""


class _Identity(NamedTuple):
    """A file is another where its number or its size is."""

    inode: int
    size: int


class _Seen(NamedTuple):
    """An object that the storage had: its bytes, and when, on the monotonic clock."""

    size: int
    time: float


class _Fetched(NamedTuple):
    """Whether the storage has such a file; ``handle`` holds its lock where this thread fetched it."""

    found: bool
    handle: int | None = None


class CachedFiles:
    """Whole files of ``storage`` in ``folder``, which is made where it is not there, and refused where it has files of
    others. Safe to use from several threads, and by several processes that share the folder. Raises as
    ``ObjectStorage`` does, and where the disk refuses.

    ``Limits.cache_size`` bounds it: a single process keeps to that, several pass it by a sixteenth for each but the
    first, and by what is open (``CacheEviction``).

    Bytes are compared with what their name promises (``keeps_promise``) when they are fetched, and once more when this
    process uses them first.
    """

    def __init__(self, folder: Path, storage: ObjectStorage, limits: Limits) -> None:
        self._storage = storage
        self._sizes = {"index_size": limits.index_size, "module_size": limits.module_size}
        self._files = folder / "files"
        self._incoming = folder / "incoming"
        with disk(folder):
            check_private(folder)
            with disk(folder, NOT_MADE):
                check_no_others(folder)
                self._make_folders()
            for each in (self._files, self._incoming):
                keep_from_others(each)
            sweep(self._incoming)
        self._eviction = CacheEviction(self._files, limits)
        self._lock = Lock()
        self._fetches: dict[str, Future[bool]] = {}
        self._compared: dict[str, _Identity] = {}
        self._seen: dict[str, _Seen] = {}

    def _make_folders(self) -> None:
        """Make those of the cache's folders that are not there: who empties a cache is not asked whether a daemon
        uses it. Raises OSError."""
        for each in (self._files, self._incoming):
            make_folder(each, durable=False)

    @contextmanager
    def file(self, name: str) -> Iterator[Path | None]:
        """The path of a file, fetched when it is not here; None where nothing has the name. The path is this process's
        own, by a descriptor that holds the file's lock: it leads there until the context ends, though another process
        drops the file."""
        handle = self._opened(name)
        try:
            yield None if handle is None else Path(f"/proc/self/fd/{handle}")
        finally:
            if handle is not None:
                os.close(handle)

    def mapped(self, name: str) -> memoryview | None:
        """The bytes of a file, mapped read-only, fetched when they are not here; None where nothing has the name.
        The mapping holds the file's lock for as long as it lives."""
        handle = self._opened(name)
        if handle is None:
            return None
        try:
            size = os.fstat(handle).st_size
            with disk(self._path(name)):
                return memoryview(mmap.mmap(handle, size, prot=mmap.PROT_READ) if size else b"")
        finally:
            os.close(handle)

    def add(self, name: str, path: Path) -> None:
        """Keep the file ``path`` in the storage and then here. It is copied: a lock on a link would be one on the
        file itself, which whoever wrote it may still hold. Where the disk has no room for the copy it is left to the
        storage."""
        self._storage.put(name, path)
        try:
            with disk(self._incoming):
                self._make_folders()
                file = IncomingFile(self._incoming, durable=False)
                try:
                    with os.fdopen(open_file(path), "rb") as source:
                        shutil.copyfileobj(source, file, MIB)
                    self._eviction.make_room(file.size)
                    file.publish(self._path(name))
                finally:
                    file.discard()
        except StoreUnavailable as error:
            log.warning("%s is in the object storage and not kept here: %s", name, error)

    def sizes(self, names: Sequence[str], seconds: float = 0.0) -> Mapping[str, int]:
        """Bytes of those of ``names`` that the storage has, whatever is here. Those that were there when they were
        asked for within the last ``seconds`` are not asked for again."""
        now = time.monotonic()
        with self._lock:
            seen = {name: each for name in names if (each := self._seen.get(name)) and now - each.time < seconds}
        found = sizes(self._storage, [name for name in names if name not in seen])
        with self._lock:
            if len(self._seen) + len(found) > _SEEN:
                self._seen.clear()
            self._seen |= {name: _Seen(size, now) for name, size in found.items()}
        return found | {name: each.size for name, each in seen.items()}

    def drop(self, name: str) -> None:
        """Forget the file here alone, so that the next who asks fetches it anew. Harmless where it is not here."""
        self._compared.pop(name, None)
        self._seen.pop(name, None)
        path = self._path(name)
        with disk(path):
            remove(path)

    def remove(self, name: str) -> None:
        """Forget the file in the storage and here. Other machines keep their copies until these are the least
        recently used."""
        self._storage.remove(name)
        self.drop(name)

    def _path(self, name: str) -> Path:
        return self._files / checked_name(name)

    def _opened(self, name: str) -> int | None:
        """A descriptor that holds the file's lock; None where nothing has the name."""
        path = self._path(name)
        for _ in range(_LOOKS):
            with disk(path):
                handle = _lock_shared(path)
            if handle is None:
                fetched = self._fetched_once(name)
                if fetched.handle is not None or not fetched.found:
                    return fetched.handle
            elif self._is_right(name, path, handle):
                return handle
            else:
                os.close(handle)
                log.warning("%s was damaged: it is fetched anew", path)
                self.drop(name)
        raise StoreUnavailable(
            "it was removed again and again before it could be read",
            where=str(path),
            hint="raise the limit cache_size, or free some space",
            metadata={"file": str(path), "limit": "cache_size"},
        )

    def _is_right(self, name: str, path: Path, handle: int) -> bool:
        """Whether the bytes are those that the name promises, as far as this process has not seen it already; its use
        is noted."""
        with disk(path):
            status = os.fstat(handle)
            identity = _Identity(status.st_ino, status.st_size)
            if self._compared.get(name) != identity:
                with os.fdopen(os.dup(handle), "rb") as file:
                    if not keeps_promise(name, file):
                        return False
                self._note_compared(name, identity)
            _note_use(handle)
        return True

    def _note_compared(self, name: str, identity: _Identity) -> None:
        with self._lock:
            if len(self._compared) >= _SEEN:
                self._compared.clear()
            self._compared[name] = identity

    def _fetched_once(self, name: str) -> _Fetched:
        """Fetch a file, or wait for the thread of this process that does."""
        with self._lock:
            under_way = self._fetches.get(name)
            if under_way is None:
                mine = self._fetches[name] = Future[bool]()
        if under_way is not None:
            return _Fetched(_outcome(under_way))
        try:
            fetched = self._fetch(name)
        except BaseException as error:
            mine.set_exception(error)
            raise
        else:
            mine.set_result(fetched.found)
            return fetched
        finally:
            with self._lock:
                del self._fetches[name]

    def _fetch(self, name: str) -> _Fetched:
        with disk(self._incoming):
            self._make_folders()
            self._eviction.make_room(0)  # where others have filled the disk
            file = IncomingFile(self._incoming, durable=False)
            try:
                if not self._downloaded_with_room(name, file):
                    return _Fetched(found=False)
                if not _is_whole(name, file.path) and not self._downloaded_again(name, file.path):
                    return _damaged(name)
                self._eviction.make_room(file.size)
                handle = file.shared()
                try:
                    file.publish(self._path(name))
                except BaseException:
                    os.close(handle)
                    raise
            finally:
                file.discard()
            status = os.fstat(handle)
        self._note_compared(name, _Identity(status.st_ino, status.st_size))
        return _Fetched(found=True, handle=handle)

    def _downloaded_with_room(self, name: str, file: IncomingFile) -> bool:
        """``_downloaded``; where the disk has no room for the file it comes once more, after others have gone for it:
        to ask for the size of each file before it comes would cost a request for each."""
        try:
            return self._downloaded(name, file.path)
        except StoreUnavailable as error:
            if error.metadata.get("errno") not in _FULL:
                raise
        self._eviction.make_room(0, ahead=(self._storage.size(name) or 0) - file.size)
        return self._downloaded(name, file.path)

    def _downloaded_again(self, name: str, path: Path) -> bool:
        """Whether another attempt brings the right bytes: what spoils some may sit on the way."""
        return self._downloaded(name, path) and _is_whole(name, path)

    def _downloaded(self, name: str, path: Path) -> bool:
        """``ObjectStorage.fetch`` of what a module or an index may be: an index that is larger is made again, as one
        that is not there."""
        limit = "index_size" if promised_digest(name) is None else "module_size"
        try:
            return self._storage.fetch(name, path, self._sizes[limit])
        except LimitExceeded as error:
            error.metadata |= {"limit": limit, "value": str(self._sizes[limit])}
            error.hint = (
                f"raise the limit {limit}; where nothing so large was added, `symd store check` says what is damaged"
            )
            if limit == "module_size":
                raise
            log.warning("an index of the object storage is left alone: %s", error)
            return False


def _note_use(handle: int) -> None:
    """Now it was used; on a disk that is only read from by now it is read all the same. Raises OSError."""
    try:
        os.utime(handle)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise


def _is_whole(name: str, path: Path) -> bool:
    """Whether a file keeps the promise of its name."""
    with os.fdopen(open_file(path), "rb") as file:
        return keeps_promise(name, file)


def _damaged(name: str) -> _Fetched:
    """What becomes of a file that has other bytes in the storage: an index is made again, as one that is not there; a
    module cannot be, and ``DataLoss`` is raised."""
    digest = promised_digest(name)
    if digest is None:
        log.warning("the object storage has an index that is damaged: %s", name)
        return _Fetched(found=False)
    raise DataLoss(
        "the object storage has other bytes than the name says",
        where=name,
        hint="add the module again",
        metadata={"module": f"modules/{digest}", "object": name},
    )


def _lock_shared(path: Path) -> int | None:
    """A descriptor with a shared lock on the file that is at ``path``; None where there is none. Raises OSError."""
    while True:
        try:
            handle = open_file(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        fcntl.flock(handle, fcntl.LOCK_SH)
        if os.fstat(handle).st_nlink:
            return handle
        os.close(handle)


def _outcome(fetch: Future[bool]) -> bool:
    """What another thread's fetch ended with; an error is raised as one of this thread's own."""
    error = fetch.exception()
    if isinstance(error, SymdError):
        raise error_from_dict(error_to_dict(error)) or error from error
    return fetch.result()


KINDS: Final = ("modules", "index")
"""How names of objects begin: what else lies among the files is not the cache's."""
_OWN: Final = frozenset({"files", "incoming", "incoming-modules", "lost+found"})


def check_no_others(folder: Path) -> None:
    """Raises ``FailedPrecondition`` where there is something that no cache has. Raises OSError."""
    beside, inside = _names(folder), _names(folder / "files")
    others = sorted(f"files/{name}" for name in inside - set(KINDS))
    if not inside:  # nothing says that it is a cache already
        others += sorted(beside - _OWN)
    if others:
        raise FailedPrecondition(
            f"the folder is not a cache of symd's, and is not empty: {ascii(others[0])[1:-1]}",
            where=str(folder),
            hint="choose with --cache an empty folder, or one that is not there yet",
        )


def _names(folder: Path) -> set[str]:
    try:
        return {entry.name for entry in folder.iterdir()}
    except FileNotFoundError:
        return set()


_FILL_LEFT: Final = 0.9
"""The part of the bound that stays full when files have to go: fewer, so that the next files need no scan of all
others."""
_SCAN_FRACTION: Final = 16
"""The part of the bound that this process adds before the folder is scanned for what other processes added: a
sixteenth."""


class _File(NamedTuple):
    """A file of the cache; the least recently used sorts first."""

    used: int
    """Nanoseconds since the epoch."""
    size: int
    path: Path


class CacheEviction:
    """Keeps the files below ``folder`` within ``Limits.cache_size``, and ``Limits.free_disk`` bytes of its disk free.
    Other processes may do the same with the same folder. Safe to use from several threads.

    The bytes there are counted in a scan of all files, and then only added to, so that a file costs no scan. What other
    processes add is not seen before the next one.
    """

    def __init__(self, folder: Path, limits: Limits) -> None:
        self._folder = folder
        self._bound = limits.cache_size
        self._free = limits.free_disk
        self._lock = Lock()
        self._bytes: int | None = None
        """Bytes that are there at most, but for what others add; None: nobody has counted."""
        self._since = 0
        """Bytes that came since the last scan."""

    def make_room(self, size: int, ahead: int = 0) -> None:
        """Remove what must go so that a file of ``size`` bytes fits, which is on the disk already, and ``ahead`` more
        bytes have room on the disk, which are to come. Raises OSError."""
        with self._lock:
            missing = self._missing(ahead)
            is_scan_due = self._since > self._bound // _SCAN_FRACTION
            if self._bytes is None or is_scan_due or missing or self._bytes + size > self._bound:
                self._bytes = self._evict(size, missing)
                self._since = 0
            self._bytes += size
            self._since += size

    def _missing(self, ahead: int) -> int:
        """Bytes of the disk that should be free and are not, when ``ahead`` are to come."""
        found = os.statvfs(self._folder)
        return max(0, self._free + ahead - found.f_bavail * found.f_frsize)

    def _evict(self, coming: int, missing: int) -> int:
        """Remove files until ``coming`` bytes fit and ``missing`` have gone; the bytes that are left."""
        files = sorted(_cached(self._folder))
        total = sum(each.size for each in files)
        if total + coming <= self._bound and not missing:
            return total
        target = max(0, min(int(self._bound * _FILL_LEFT) - coming, total - missing))
        for each in files:
            if total <= target:
                break
            if _remove_unused(each.path):
                total -= each.size
        return total


def _cached(folder: Path) -> Iterator[_File]:
    """Every file of the cache, and none that somebody put beside."""
    for kind in KINDS:
        yield from _files(folder / kind)


def _files(folder: Path) -> Iterator[_File]:
    """Every file below a folder."""
    with suppress(FileNotFoundError), os.scandir(folder) as found:
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(Path(entry.path))
            else:
                with suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    yield _File(status.st_mtime_ns, status.st_size, Path(entry.path))


def _remove_unused(path: Path) -> bool:
    """Remove a file that nobody uses; whether it is gone."""
    try:
        return if_unlocked(path, Path.unlink)
    except FileNotFoundError:
        return True
