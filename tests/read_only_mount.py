"""A folder mounted at another place, where it can only be read: root may not write there either."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def read_only_mount(folder: Path, place: Path) -> Iterator[str]:
    """Make the folder ``place`` and mount ``folder`` there until the end. Yields "", or why there is no right to mount."""
    place.mkdir()
    problem = _mount("--bind", str(folder), str(place))
    if problem:
        yield problem
        return
    try:
        yield _mount("-o", "remount,bind,ro", str(place))
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def make_writable(place: Path) -> None:
    """What is mounted there may be written from now on."""
    assert not _mount("-o", "remount,bind,rw", str(place))


def _mount(*words: str) -> str:
    done = subprocess.run(["mount", *words], capture_output=True, text=True, check=False)
    return (done.stderr.strip() or f"mount ended with {done.returncode}") if done.returncode else ""
