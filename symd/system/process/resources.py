"""Resources of symd's processes: how the C library keeps their memory (glibc, mallopt(3)), and which limit refuses them
a thread.

By default each thread gets a part of the heap of its own, of which nothing goes back to the system while anything above
it is in use, and sizes of blocks that were freed once are no longer asked of the system. gRPC's threads allocate
messages and others free them, so a daemon would keep several times the memory that it needs after a burst of large
messages.

Sources: pthread_create(3), EAGAIN; getrlimit(2); the kernel's cgroup-v2.rst, "PID".
"""

from __future__ import annotations

import ctypes
import resource
from pathlib import Path
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


_CGROUPS: Final = Path("/sys/fs/cgroup")
_OWN: Final = Path("/proc/self/cgroup")


def thread_limits(cgroups: Path = _CGROUPS, own: Path = _OWN) -> str:
    """The limits of threads that are known here, and how to raise them: the one that is reached, where that can be
    told."""
    of_cgroup = _of_cgroup(cgroups, own)
    if of_cgroup is not None and of_cgroup[0] >= of_cgroup[1]:
        return _cgroup_text(of_cgroup[1])
    said = [] if of_cgroup is None else [_cgroup_text(of_cgroup[1])]
    processes, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if processes != resource.RLIM_INFINITY:
        said.append(f"its user may have {processes} processes and threads (ulimit -u; LimitNPROC= in a systemd unit)")
    space, _ = resource.getrlimit(resource.RLIMIT_AS)
    if space != resource.RLIM_INFINITY:
        said.append(f"it may take {space} bytes of address space (ulimit -v; LimitAS=)")
    return ", ".join(said) or "look at kernel.threads-max, and at the memory of the machine"


def _cgroup_text(most: int) -> str:
    return f"its cgroup may have {most} threads (pids.max; TasksMax= in a systemd unit, --pids-limit of a container)"


def _of_cgroup(cgroups: Path, own: Path) -> tuple[int, int] | None:
    """(threads, the most it may have) of the innermost cgroup that has a limit; None where there is none."""
    try:
        name = next(line[3:] for line in own.read_text().splitlines() if line.startswith("0::"))
    except (OSError, StopIteration):
        return None
    folder = cgroups / name.lstrip("/")
    for each in (folder, *folder.parents):
        try:
            most = (each / "pids.max").read_text().strip()
            if most != "max":
                return int((each / "pids.current").read_text()), int(most)
        except (OSError, ValueError):
            continue
        if each == cgroups:
            break
    return None
