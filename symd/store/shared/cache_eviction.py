"""Eviction from a cache of files: the least recently used go first, and those in use stay. A folder with other files in
it is refused as a cache, since whatever is in one may be removed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

from symd.config import Limits
from symd.errors import FailedPrecondition
from symd.system.private_files import if_unlocked

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
