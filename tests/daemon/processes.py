"""Daemons that a test starts, kills and starts again over one store, and a look at their processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.daemon.conftest import Daemon


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Daemon]:
    """A daemon over the store in ``folder``, killed at the end with all that it started."""
    address = f"unix:{folder}/symd.sock"
    command = [sys.executable, "-m", "symd", "serve", "--address", address, "--store", str(folder / "store"), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"symd serves at {address}\n"
        try:
            yield Daemon(address, folder / "store", process)
        finally:
            kill(process)


def kill(process: subprocess.Popen[str]) -> None:
    """SIGKILL for the daemon and the processes that it started, which may be stopped."""
    workers = children(process.pid)
    process.kill()
    for worker in workers:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
    process.wait()


def children(process: int) -> set[int]:
    """The processes that it started, whichever thread of it did; of one that has ended there are none."""
    found = set[int]()
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            found.update(map(int, path.read_text().split()))
    return found


def has_ended(process: int) -> bool:
    """Whether it is gone, or waits to be asked how it ended (proc(5))."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def most_memory(process: int) -> int:
    """The most bytes that the process ever had in memory (proc(5))."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) << 10
