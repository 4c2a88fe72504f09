"""Which processor the daemon's threads run on.

grpc.aio hands a call from one thread to another several times: one waits for what the transport tells, the event loop answers. On two
processors each of these hand-overs wakes one that sleeps, which takes longer than to answer one address (``make bench``, "one address over
gRPC"), and never do both run Python at a time. So these threads stay on one processor, as long as nothing else is busy there."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

PERIOD, LONGEST_PERIOD = 1.0, 60.0
"""Seconds between two looks at how long the threads wait for their processor; and the most that they then run anywhere."""
CROWDED = 0.2
"""The part of its time that a thread may wait for the processor until it may run on any."""

_TASKS = Path("/proc/self/task")
_WAITED = 1
"""In /proc/PID/schedstat, from 0: nanoseconds for which the thread could have run and had no processor."""
_PROCESSOR = 36
"""In /proc/PID/stat, from 0 and after the name in parentheses, which may have spaces: the processor that ran the thread last (proc(5))."""


@contextmanager
def together(threads: Sequence[int]) -> Iterator[None]:
    """Keep threads (native ids) on the processor that the system gave to the first of them. Where that one has to wait for it, all of them may run
    anywhere for a while, and are then put where the first runs by that time. Changes nothing where there is one processor, or where the system
    does not tell how long a thread waits."""
    over = threading.Event()
    keeper = threading.Thread(target=_keep, args=(threads, over), name="symd-placement", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        over.set()
        keeper.join()


def run_anywhere() -> None:
    """Let the calling thread run where its process may: a thread begins where the one may run that started it."""
    os.sched_setaffinity(0, _everywhere())


def _keep(threads: Sequence[int], over: threading.Event) -> None:
    apart = PERIOD
    with suppress(OSError, IndexError, ValueError):  # the system does not tell, or a thread has ended
        while not over.is_set() and len(_everywhere()) > 1:
            before = _waited(threads[0])
            _place(threads, {_processor(threads[0])})
            calm = _stayed(threads[0], before, over)
            _place(threads, _everywhere())
            apart = PERIOD if calm else min(2 * apart, LONGEST_PERIOD)
            over.wait(apart)


def _stayed(thread: int, waited: float, over: threading.Event) -> bool:
    """Look at the thread until it has to wait for its processor, or ``over``; whether it had not to for a period."""
    calm = False
    while not over.wait(PERIOD):
        before, waited = waited, _waited(thread)
        if waited - before > CROWDED * PERIOD:
            break
        calm = True
    return calm


def _everywhere() -> set[int]:
    """The processors that the process may use: its first thread is never put on one."""
    return os.sched_getaffinity(os.getpid())


def _place(threads: Sequence[int], processors: set[int]) -> None:
    for thread in threads:
        os.sched_setaffinity(thread, processors)


def _waited(thread: int) -> float:
    """Seconds for which the thread has waited for a processor since it began."""
    return int((_TASKS / str(thread) / "schedstat").read_bytes().split()[_WAITED]) / 1e9


def _processor(thread: int) -> int:
    return int((_TASKS / str(thread) / "stat").read_bytes().rpartition(b")")[2].split()[_PROCESSOR])
