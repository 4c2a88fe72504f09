"""Starting a child within its limits, and killing it with everything that it started."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from symd.system.private_files import OTHERS
from symd.system.process.launcher import BEGUN

_LAUNCHER: Final = Path(__file__).resolve().with_name("launcher.py")
_ANSWER_BYTES: Final = 1 << 12


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """What one child may cost: ``seconds`` on the clock; ``memory``, bytes of address space; ``answer``, bytes that it
    may answer with; where they are not None, ``cpu_seconds`` of processor time, ``file_size``, bytes of any file that
    it writes, ``open_files`` at a time; ``written``, bytes of all files in its folder, ``files`` and folders there, and
    ``threads`` as ``process`` looks at them now and then."""

    seconds: float
    memory: int
    answer: int
    cpu_seconds: int | None = None
    file_size: int | None = None
    open_files: int | None = None
    written: int | None = None
    files: int | None = None
    threads: int | None = None


def start(
    command: Sequence[str],
    limits: ProcessLimits,
    environment: Mapping[str, str],
    pass_fds: Sequence[int] = (),
    **options: Any,
) -> subprocess.Popen[bytes]:
    """Start ``command`` with exactly this environment in a session and process group of its own, held to the kernel's
    limits from its first instruction; what it makes nobody else may open. ``pass_fds`` and ``options`` are Popen's.

    Raises OSError when it cannot be started, or cannot be limited.
    """
    given = _environment_block(environment)
    held = ",".join(f"{kind}:{soft}:{hard}" for kind, soft, hard in resource_limits(limits))
    ours, its = socket.socketpair()
    with ours:
        with its:
            launcher = (sys.executable, "-I", "-S", str(_LAUNCHER), str(its.fileno()), str(len(given)), held)
            process = subprocess.Popen(
                [*launcher, *command],
                start_new_session=True,
                umask=OTHERS,
                env=interpreter_environment(),
                pass_fds=(*pass_fds, its.fileno()),
                **options,
            )
        try:
            _check_begun(_answer(ours, given), process, command[0])
        except BaseException:
            kill(process)
            process.wait()
            raise
    return process


def _environment_block(environment: Mapping[str, str]) -> bytes:
    """The variables as execve(2) has them. Raises ValueError for what cannot be one."""
    pairs = [os.fsencode(f"{name}={value}") for name, value in environment.items()]
    if any(b"\0" in pair for pair in pairs):
        raise ValueError("embedded null byte")
    return b"".join(pair + b"\0" for pair in pairs)


def _answer(launcher: socket.socket, environment: bytes) -> bytes:
    """What the launcher says until it is the program, or has ended."""
    said = bytearray()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it may be the program already, and have ended
        launcher.sendall(environment, socket.MSG_NOSIGNAL)
    with contextlib.suppress(ConnectionResetError):
        while piece := launcher.recv(_ANSWER_BYTES):
            said += piece
    return bytes(said)


def _ending(status: int) -> str:
    return f"died of {signal_name(-status)}" if status < 0 else f"ended with exit status {status}"


def signal_name(number: int) -> str:
    """ "SIGSEGV" for 11; "signal 40" for a number without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _check_begun(said: bytes, launcher: subprocess.Popen[bytes], program: str) -> None:
    """Raises OSError where the launcher does not say that the program runs. One that has closed its end of the socket
    has ended, or is about to."""
    if not said:
        raise OSError(errno.EIO, f"the process that was to become it {_ending(launcher.wait())}", program)
    if said != BEGUN:
        number, _, text = said.removeprefix(BEGUN).decode("utf-8", "replace").partition(" ")
        raise OSError(int(number), text, program)


def resource_limits(limits: ProcessLimits) -> list[tuple[int, int, int]]:
    """What the kernel holds a process to: (resource, soft limit, hard limit), as setrlimit(2) takes them."""
    wanted: list[tuple[int, int, int]] = [
        (resource.RLIMIT_AS, limits.memory, limits.memory),
        (resource.RLIMIT_CORE, 0, 0),
    ]
    if limits.cpu_seconds is not None:  # SIGXCPU, which says what it is for, comes at the lower of the two only
        wanted.append((resource.RLIMIT_CPU, limits.cpu_seconds, limits.cpu_seconds + 1))
    if limits.file_size is not None:
        wanted.append((resource.RLIMIT_FSIZE, limits.file_size, limits.file_size))
    if limits.open_files is not None:
        wanted.append((resource.RLIMIT_NOFILE, limits.open_files, limits.open_files))
    allowed = []
    for kind, soft, hard in wanted:
        _, most = resource.getrlimit(kind)
        unlimited = most == resource.RLIM_INFINITY
        allowed.append((kind, soft if unlimited else min(soft, most), hard if unlimited else min(hard, most)))
    return allowed


def allow_open_files(wanted: int) -> int:
    """Let this process open ``wanted`` files at a time, or as many as its hard limit allows: the soft one is often
    1,024, which as many connections reach. Returns how many it may open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        return most
    return most if soft == resource.RLIM_INFINITY else soft


class Running(Protocol):
    """A child: as much of ``subprocess.Popen`` as its owner needs."""

    pid: int
    returncode: int | None

    def wait(self) -> int:
        """Wait until the child ends; its exit status, or minus the number of the signal that ended it."""
        ...


def kill(process: subprocess.Popen[bytes] | Running) -> None:
    """Kill the process and its group, without waiting. One that was waited for is left alone: its number may be another
    process's by now."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


_OF_THE_INTERPRETER = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")


def interpreter_environment() -> dict[str, str]:
    """What a Python process of ours needs to find itself and its libraries, and none of the user's other settings,
    among which are secrets."""
    return {name: os.environ[name] for name in _OF_THE_INTERPRETER if name in os.environ} | {"LC_ALL": "C.UTF-8"}


def clean_environment(folder: Path) -> dict[str, str]:
    """What a program needs that is not to be swayed by the user's settings: PATH, and ``folder`` for what it writes."""
    path = os.environ.get("PATH", os.defpath)
    return {"PATH": path, "HOME": str(folder), "TMPDIR": str(folder), "LC_ALL": "C"}
