"""The daemon's own memory, as the system counts it (proc(5), /proc/PID/statm)."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from symd.system.process.heap import trim_heap

_STATM = Path("/proc/self/statm")
_RESIDENT, _SHARED = 1, 2
PERIOD, LONGEST_PERIOD = 1.0, 60.0
"""Seconds between two looks at the memory; and the most, where little could be given back."""
GROWTH = 32 << 20
"""Bytes that the memory may be above what it was, before what is free of it is given back."""
LITTLE = 4 << 20
_PAGE = os.sysconf("SC_PAGE_SIZE")


def own_bytes() -> int:
    """Memory that belongs to this process alone: not mapped files, which the system can take back. 0 where nobody says."""
    try:
        pages = _STATM.read_bytes().split()
    except OSError:
        return 0
    return (int(pages[_RESIDENT]) - int(pages[_SHARED])) * _PAGE


@contextmanager
def heap_trimmed() -> Iterator[None]:
    """Give what large messages left free in the heap back to the system, whenever the memory is ``GROWTH`` above what it was at the beginning."""
    over = threading.Event()

    def look() -> None:
        least, pause = own_bytes(), PERIOD
        while not over.wait(pause):
            before = own_bytes()
            if before <= least + GROWTH:
                pause = PERIOD
                continue
            trim_heap()
            pause = PERIOD if before - own_bytes() > LITTLE else min(2 * pause, LONGEST_PERIOD)

    threading.Thread(target=look, name="symd-memory", daemon=True).start()
    try:
        yield
    finally:
        over.set()
