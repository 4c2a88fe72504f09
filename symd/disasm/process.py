"""One run of a disassembler that may meet hostile bytes: a folder, a process group, a deadline and limits of its own."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from symd.errors import DeadlineExceeded, DriverCrashed, DriverFailed, LimitExceeded

GROWTH = 256
"""A disassembler may write so many bytes for each that it is given,"""
GROUND = 1 << 22
"""and these besides."""
INPUT, ANSWER = "input", "answer"


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one run may take: wall-clock seconds and bytes of address space."""

    seconds: float
    memory: int


@dataclass(frozen=True, slots=True)
class Ran:
    """How a program ended: its exit status (minus the signal that ended it) and what it wrote, on its outputs and to the
    file ``answer``."""

    status: int
    out: bytes = field(repr=False)
    err: str = field(repr=False)
    answer: bytes = field(repr=False)


def run(command: Sequence[str], data: bytes, allowance: Allowance) -> Ran:
    """Run a program in an empty folder whose only file, ``input``, holds ``data``.

    Raises DeadlineExceeded, LimitExceeded when it writes too much, DriverFailed when it cannot be started. A crash is
    told by ``Ran.status``.
    """
    with tempfile.TemporaryDirectory(prefix="symd-disasm-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / INPUT).write_bytes(data)
        most = GROUND + GROWTH * len(data)
        with (folder / "out").open("w+b") as out, (folder / "err").open("w+b") as err:
            status = _status(command, folder, (out.fileno(), err.fileno()), most, allowance)
            said = _content(err.fileno()).decode("utf-8", "replace")
            answer = folder / ANSWER
            return Ran(status, _content(out.fileno()), said, answer.read_bytes() if answer.is_file() else b"")


def _status(command: Sequence[str], folder: Path, outputs: tuple[int, int], most: int, allowance: Allowance) -> int:
    program = Path(command[0]).name
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "LC_ALL": "C",
    }
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=outputs[0],
            stderr=outputs[1],
            start_new_session=True,
        )
    except OSError as error:
        raise DriverFailed(f"it cannot be started: {error}", where=program) from error
    with process:
        _confine(process.pid, most, allowance.memory)
        try:
            status = process.wait(allowance.seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # not reaped yet, so the number is still its own
            raise DeadlineExceeded(
                f"no end within {allowance.seconds:g} seconds", where=program, hint="ask for one kernel, or allow more"
            ) from None
    if status == -signal.SIGXFSZ:
        raise LimitExceeded(f"it wrote more than {most} bytes", where=program, hint="ask for one kernel")
    return status


def _confine(pid: int, most: int, memory: int) -> None:
    """Limits of a process that runs already; one that has ended needs none."""
    limits = ((resource.RLIMIT_AS, memory), (resource.RLIMIT_FSIZE, most), (resource.RLIMIT_CORE, 0))
    with contextlib.suppress(ProcessLookupError, PermissionError, ValueError):
        for kind, value in limits:
            resource.prlimit(pid, kind, (value, value))


def _content(descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, size, 0) if size else b""


def crashed(program: str, ran: Ran) -> DriverCrashed:
    """The error for a program that died of a signal; call it when ``ran.status`` is negative."""
    try:
        name = signal.Signals(-ran.status).name
    except ValueError:
        name = f"signal {-ran.status}"
    return DriverCrashed(
        f"the disassembler died of {name}{_last_words(ran)}",
        where=program,
        hint="the code may be damaged, or for another device",
        metadata={"signal": name},
    )


def failed(program: str, ran: Ran) -> DriverFailed:
    """The error for a program that gave no answer."""
    return DriverFailed(f"it ended with status {ran.status}{_last_words(ran)}", where=program)


def _last_words(ran: Ran) -> str:
    words = ran.err.strip().rpartition("\n")[2].strip()
    return f"; its last words: {words[:200]}" if words else ""
