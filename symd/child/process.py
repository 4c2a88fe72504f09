"""Starting a child within its limits, and killing it with everything that it started."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """What one child may cost: ``seconds`` on the clock; ``memory``, bytes of address space; ``answer``, bytes that it may
    answer with; ``cpu_seconds`` of processor time and ``file_size``, bytes of any file that it writes, where they are not
    None."""

    seconds: float
    memory: int
    answer: int
    cpu_seconds: int | None = None
    file_size: int | None = None


def start(command: Sequence[str], limits: ProcessLimits, **options: Any) -> subprocess.Popen[bytes]:
    """Start ``command`` in a session and process group of its own, held to the kernel's limits. ``options`` are Popen's.

    Raises OSError when it cannot be started, or cannot be limited: then it is killed.
    """
    process = subprocess.Popen(command, start_new_session=True, **options)
    try:
        _limit(process.pid, limits)
    except BaseException:
        kill(process)
        process.wait()
        raise
    return process


def _limit(pid: int, limits: ProcessLimits) -> None:
    """Limits of a process that runs already, a moment after its start; setting them between fork and exec is not safe in
    a program with threads. A process that has ended needs none."""
    wanted: list[tuple[int, int, int]] = [
        (resource.RLIMIT_AS, limits.memory, limits.memory),
        (resource.RLIMIT_CORE, 0, 0),
    ]
    if limits.cpu_seconds is not None:  # SIGXCPU, which says what it is for, comes at the lower of the two only
        wanted.append((resource.RLIMIT_CPU, limits.cpu_seconds, limits.cpu_seconds + 1))
    if limits.file_size is not None:
        wanted.append((resource.RLIMIT_FSIZE, limits.file_size, limits.file_size))
    with contextlib.suppress(ProcessLookupError):
        for kind, soft, hard in wanted:
            _, most = resource.getrlimit(kind)
            both = (soft, hard) if most == resource.RLIM_INFINITY else (min(soft, most), min(hard, most))
            resource.prlimit(pid, kind, both)


def allow_open_files(wanted: int) -> None:
    """Let this process open ``wanted`` files at a time, or as many as its hard limit allows: the soft one is often 1,024, which
    as many connections reach."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and its group, without waiting. One that was waited for is left alone: its number may be another
    process's by now."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


_OF_THE_INTERPRETER = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")


def interpreter_environment() -> dict[str, str]:
    """What a Python process of ours needs to find itself and its libraries, and none of the user's other settings, among
    which are secrets."""
    return {name: os.environ[name] for name in _OF_THE_INTERPRETER if name in os.environ} | {"LC_ALL": "C.UTF-8"}


def clean_environment(folder: Path) -> dict[str, str]:
    """What a program needs that is not to be swayed by the user's settings: PATH, and ``folder`` for what it writes."""
    path = os.environ.get("PATH", os.defpath)
    return {"PATH": path, "HOME": str(folder), "TMPDIR": str(folder), "LC_ALL": "C"}
