"""What this process has open. Other tests' threads may close something of theirs meanwhile, so that no number of descriptors is the same later."""

from __future__ import annotations

import os
from contextlib import suppress


def open_files() -> set[str]:
    """Of each descriptor what it is open for: a path, or the kind and the number of a socket or pipe (proc(5))."""
    found = set()
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names alone
        with suppress(OSError):  # the folder's own is closed by now
            found.add(os.readlink(f"/proc/self/fd/{name}"))  # noqa: PTH115 - it names no file
    return found
