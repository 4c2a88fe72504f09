"""A daemon as a user starts it, and what the kernel says of its process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from symd import Client
from tests.daemon.processes import children

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Usage:
    """``memory`` is resident and the process's own, in bytes; ``children`` are the processes that index."""

    threads: int
    files: int
    memory: int
    children: int


@dataclass
class Daemon:
    address: str
    store: Path
    log: Path
    process: subprocess.Popen[str]
    others: list[str] = field(default_factory=list)

    def client(self, timeout: float = 60) -> Client:
        return Client(self.address, timeout=timeout)

    def usage(self) -> Usage:
        process = Path("/proc") / str(self.process.pid)
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        memory = int(status["RssAnon"].split()[0]) << 10
        return Usage(int(status["Threads"]), len(list((process / "fd").iterdir())), memory, len(self.children()))

    def children(self) -> list[int]:
        """The processes that it started, whichever thread did."""
        return sorted(children(self.process.pid))

    def processor_seconds(self) -> float:
        """What it and the processes that it started have taken of the processor (proc(5): utime, stime, cutime, cstime)."""
        fields = [_stat(process) for process in (self.process.pid, *self.children())]
        return sum(int(ticks) for each in fields for ticks in each[11:15]) / os.sysconf("SC_CLK_TCK")

    def stored(self) -> dict[str, int]:
        """Every file of modules and indexes with its size."""
        folders = (self.store / name for name in ("modules", "index", "incoming", "damaged"))
        return {str(path): path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file()}

    def said(self) -> list[str]:
        """Lines of the log that speak of a defect of ours."""
        lines = self.log.read_text(errors="backslashreplace").splitlines()
        return [line for line in lines if "Traceback" in line or "defect" in line or "Error" in line]

    def end(self) -> int:
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def _stat(process: int) -> list[str]:
    """The fields of proc(5)'s stat behind the name; none of a process that has just ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


@contextmanager
def serving(folder: Path, name: str = "daemon", further: Sequence[str] = ()) -> Iterator[Daemon]:
    """A daemon whose store is in ``folder``, which may have one already; killed at the end if it is still there. ``further``
    are options of ``symd serve``; what they let it serve at beside the socket stands in ``others``."""
    address, log = f"unix:{folder}/{name}.sock", folder / f"{name}.log"
    command = [sys.executable, "-m", "symd", "serve", "--address", address, "--store", str(folder / "store"), *further]
    with (
        log.open("w") as errors,
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        daemon = Daemon(address, folder / "store", log, process)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == f"symd serves at {address}\n", log.read_text()
            daemon.others += [process.stdout.readline().split()[-1] for word in further if word == "--address"]
            yield daemon
        finally:
            process.kill()
