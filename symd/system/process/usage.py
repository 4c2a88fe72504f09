"""What a child takes beside memory and time, which the kernel bounds for one process: bytes and files on the disk, threads.

The kernel bounds each file (``ProcessLimits.file_size``), not their number and not all together, for a user without
privileges. So its parent looks now and then, every ``LOOK_SECONDS``; in between a child may pass its limits by as much as it can write in that
time, and then it ends.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from symd.system.process.ending import Limit
from symd.system.process.process import ProcessLimits

LOOK_SECONDS: Final = 0.1
_BLOCK: Final = 512
"""Bytes of the unit of ``st_blocks`` (stat(2))."""
_ALWAYS_THERE: Final = 2
"""Links of a folder in /proc beside those of the folders inside."""


def watched(limits: ProcessLimits) -> bool:
    """Whether there is anything to look at."""
    return not (limits.written is None and limits.files is None and limits.threads is None)


def passed(pid: int, folder: Path, limits: ProcessLimits) -> Limit | None:
    """Which of its limits a child has passed that runs in ``folder``. What cannot be looked at counts as too many files."""
    if limits.threads is not None and _threads(pid) > limits.threads:
        return Limit.THREADS
    if limits.written is None and limits.files is None:
        return None
    number, taken = 0, 0
    seen: set[tuple[int, int]] = set()
    try:
        for found in (*_of_folder(folder, limits.files), *_removed_but_open(pid)):
            number += 1
            if (found.st_dev, found.st_ino) not in seen:
                seen.add((found.st_dev, found.st_ino))
                taken += found.st_blocks * _BLOCK
    except OSError:
        return Limit.FILES
    if limits.files is not None and number > limits.files:
        return Limit.FILES
    return Limit.WRITTEN if limits.written is not None and taken > limits.written else None


def _of_folder(folder: Path, most: int | None) -> Iterator[os.stat_result]:
    """What is below ``folder``, up to one more than ``most``. Raises OSError, also where paths become longer than the kernel takes."""
    pending, number = [os.fspath(folder)], 0
    while pending:
        for entry in _listed(pending.pop()):
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # it is at work
                continue
            yield found
            number += 1
            if most is not None and number > most:
                return
            if stat.S_ISDIR(found.st_mode):
                pending.append(entry.path)


def _listed(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return list(entries)
    except FileNotFoundError:
        return []


def _removed_but_open(pid: int) -> Iterator[os.stat_result]:
    """Files that have no name any more and take room as long as they are open."""
    with contextlib.suppress(OSError):  # it has ended
        for entry in _listed(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):  # closed meanwhile
                found = entry.stat()
                if stat.S_ISREG(found.st_mode) and not found.st_nlink:
                    yield found


def _threads(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}/task").st_nlink - _ALWAYS_THERE  # noqa: PTH116 - ten times a second
    except FileNotFoundError:
        return 0
