"""The daemon's own process: its memory as the system counts it (proc(5), /proc/PID/statm), the CPU affinity of its
threads (sched_setaffinity(2)), and how long a thread runs Python before another may (sys.setswitchinterval).

grpc.aio hands a call from one thread to another several times: one polls the transport, the event loop answers. On two
processors each hand-over wakes a sleeping processor, which takes longer than to answer one address (``make bench``,
"one address over gRPC"), and the two never run Python at the same time. So these threads are pinned to one processor as
long as nothing else is busy there.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from symd.system.process.resources import trim_heap

_STATM = Path("/proc/self/statm")
_RESIDENT, _SHARED = 1, 2
_LOOK_PERIOD, _MAX_LOOK_PERIOD = 1.0, 60.0
"""Seconds between two looks at the memory; and the most, where little could be given back."""
GROWTH = 32 << 20
"""Bytes that the memory may be above what it was, before what is free of it is given back."""
LITTLE = 4 << 20
_PAGE = os.sysconf("SC_PAGE_SIZE")


def own_bytes() -> int:
    """Memory that belongs to this process alone: not mapped files, which the system can take back. 0 where nobody
    says."""
    try:
        pages = _STATM.read_bytes().split()
    except OSError:
        return 0
    return (int(pages[_RESIDENT]) - int(pages[_SHARED])) * _PAGE


@contextmanager
def heap_trimmed() -> Iterator[None]:
    """Give what large messages left free in the heap back to the system, whenever the memory is ``GROWTH`` above what
    it was at the beginning."""
    over = threading.Event()

    def look() -> None:
        least, pause = own_bytes(), _LOOK_PERIOD
        while not over.wait(pause):
            before = own_bytes()
            if before <= least + GROWTH:
                pause = _LOOK_PERIOD
                continue
            trim_heap()
            pause = _LOOK_PERIOD if before - own_bytes() > LITTLE else min(2 * pause, _MAX_LOOK_PERIOD)

    threading.Thread(target=look, name="symd-memory", daemon=True).start()
    try:
        yield
    finally:
        over.set()


PERIOD, MAX_PERIOD = 1.0, 60.0
"""Seconds between two readings of how long the first thread had to wait for its processor; and the most for which
threads are left unpinned before they are pinned again."""
BUSY_WAIT_FRACTION = 0.2
"""Threads are unpinned where the first of them spends more than this part of a period runnable and not running."""

_TASKS = Path("/proc/self/task")
_WAITED = 1
"""The column of /proc/PID/schedstat, from 0, with the nanoseconds for which the thread could have run and had no
processor."""
_PROCESSOR = 36
"""The column of /proc/PID/stat, from 0 and after the name in parentheses, which may have spaces: the processor that ran
the thread last (proc(5))."""


@contextmanager
def pinned_to_one_cpu(threads: Sequence[int]) -> Iterator[None]:
    """Pin threads (native ids) to the processor that the first of them runs on. Where that one has to wait for it, all
    of them are unpinned for a while, and then pinned to the processor on which the first runs by that time. Changes
    nothing where the process has one processor, or where the system does not tell how long a thread waits."""
    over = threading.Event()
    pinning = threading.Thread(target=_keep_pinned, args=(threads, over), name="symd-affinity", daemon=True)
    pinning.start()
    try:
        yield
    finally:
        over.set()
        pinning.join()


def unpin() -> None:
    """Let the calling thread run on every processor of its process: a new thread has the affinity of the one that
    started it."""
    os.sched_setaffinity(0, _process_cpus())


def _keep_pinned(threads: Sequence[int], over: threading.Event) -> None:
    unpinned_seconds = PERIOD
    with suppress(OSError, IndexError, ValueError):  # the system does not tell, or a thread has ended
        while not over.is_set() and len(_process_cpus()) > 1:
            before = _waited(threads[0])
            try:
                _pin(threads, {_last_cpu(threads[0])})
                was_free = _ran_freely(threads[0], before, over)
            finally:
                _unpin(threads)
            unpinned_seconds = PERIOD if was_free else min(2 * unpinned_seconds, MAX_PERIOD)
            over.wait(unpinned_seconds)


def _ran_freely(thread: int, waited: float, over: threading.Event) -> bool:
    """Return when the thread has to wait for its processor, or at ``over``: whether it ran for at least one period
    before that."""
    was_free = False
    while not over.wait(PERIOD):
        before, waited = waited, _waited(thread)
        if waited - before > BUSY_WAIT_FRACTION * PERIOD:
            break
        was_free = True
    return was_free


def _process_cpus() -> set[int]:
    """The processors that the process may use: its first thread is never pinned."""
    return os.sched_getaffinity(os.getpid())


def _pin(threads: Sequence[int], processors: set[int]) -> None:
    for thread in threads:
        os.sched_setaffinity(thread, processors)


def _unpin(threads: Sequence[int]) -> None:
    """Let each that still runs use every processor of the process."""
    for thread in threads:
        with suppress(OSError):
            os.sched_setaffinity(thread, _process_cpus())


def _waited(thread: int) -> float:
    """Seconds for which the thread has waited for a processor since it began."""
    return int((_TASKS / str(thread) / "schedstat").read_bytes().split()[_WAITED]) / 1e9


def _last_cpu(thread: int) -> int:
    return int((_TASKS / str(thread) / "stat").read_bytes().rpartition(b")")[2].split()[_PROCESSOR])


SWITCH_SECONDS = 0.0005
"""A question about one address takes the event loop and gRPC's thread a few turns, and each of them may have to wait
for every thread of a work queue's thread that is at work. With the interpreter's 5 ms that was half a second beside
eight of them."""


@contextmanager
def frequent_thread_switches() -> Iterator[None]:
    """Let threads take turns every ``SWITCH_SECONDS``."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
