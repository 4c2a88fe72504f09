"""A file system of its own and of a few bytes, for who wants to see a disk full."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def small_disk(place: Path, size: int) -> Iterator[str]:
    """Make the folder ``place`` and mount ``size`` bytes there until the end. Yields "", or why there is no right to mount."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(place)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        yield done.stderr.strip() or f"mount ended with {done.returncode}"
        return
    try:
        yield ""
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
