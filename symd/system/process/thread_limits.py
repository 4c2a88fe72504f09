"""Why the system gives this process no further thread: the limits that it has, for whoever can raise them.

Source: pthread_create(3), EAGAIN; getrlimit(2); the kernel's cgroup-v2.rst, "PID"."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Final

_CGROUPS: Final = Path("/sys/fs/cgroup")
_OWN: Final = Path("/proc/self/cgroup")


def thread_limits(cgroups: Path = _CGROUPS, own: Path = _OWN) -> str:
    """The limits of threads that are known here, and how to raise them: the one that is reached, where that can be told."""
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
