"""Resources of symd's processes: how the C library keeps their memory (glibc, mallopt(3)), and which limits refuse them
a thread.

By default each thread gets a part of the heap of its own, of which nothing goes back to the system while anything above
it is in use, and sizes of blocks that were freed once are no longer asked of the system. gRPC's threads allocate
messages and others free them, so a daemon would keep several times the memory that it needs after a burst of large
messages.
"""

from __future__ import annotations

import ctypes
from typing import Final

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8
"""Numbers of malloc.h."""
ONES_OWN: Final = 16 << 20
"""A block of more bytes is asked of the system by itself, and goes back when it is freed. Smaller ones are used again:
a batch of a million addresses takes several of 4 and 8 MB, and to have their pages anew each time takes half as long as
the batch itself."""
KEPT: Final = 32 << 20
"""Free bytes at the heap's end that are kept."""
MUCH: Final = 256 << 20
PADDING: Final = 1 << 16
"""Bytes that ``trim_heap`` leaves at the heap's end."""


def tune_malloc_for_daemon() -> None:
    """Let this process give memory back; to be called before it has further threads. Changes nothing where the C
    library is another one."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_ARENA_MAX, 1)
        mallopt(_MMAP_THRESHOLD, ONES_OWN)
        mallopt(_TRIM_THRESHOLD, KEPT)


def tune_malloc_for_command() -> None:
    """Let a process that ends soon use freed blocks again, however large: each page that it asks of the system anew has
    to be cleared first, which takes longer than to expand a code object into it."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, MUCH)
        mallopt(_TRIM_THRESHOLD, MUCH)


def trim_heap() -> None:
    """Give the system every page of the heap that is free, wherever it lies (malloc_trim(3)): small blocks that are
    still in use keep the heap's end from sinking, and with it all that is free below. Other threads wait for it when
    they allocate."""
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(ctypes.c_size_t(PADDING))


MORE_THREADS: Final = (
    "ulimit -u, LimitNPROC= or TasksMax= of a systemd unit, --pids-limit of a container, or kernel.threads-max"
)
"""The limits of which one refuses a thread."""
