"""`python -m tests.system.process.early_limits [--starts N] [--busy N] [--confined]`: children that try at once to pass each limit, beside
busy processes; exit code 1, with what they could do, unless none could do anything."""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from symd.system.process.fork_server import ForkServer
from symd.system.process.process import ProcessLimits
from symd.system.process.run import run_tool

LIMITS = ProcessLimits(seconds=600, memory=8 << 20, answer=1 << 16, cpu_seconds=50, file_size=1 << 16, open_files=16)
"""Less memory than the interpreter takes which starts the child."""
HELD = {
    resource.RLIMIT_AS: (8 << 20, 8 << 20),
    resource.RLIMIT_CORE: (0, 0),
    resource.RLIMIT_CPU: (50, 51),
    resource.RLIMIT_FSIZE: (1 << 16, 1 << 16),
    resource.RLIMIT_NOFILE: (16, 16),
}
SOURCE = Path(__file__).with_name("early_limits.c")


def built(folder: Path, compiler: str) -> list[str]:
    """The command of the child, which needs no loader: its own code is the first that runs."""
    program = folder / "early_limits"
    subprocess.run([compiler, "-static", "-O1", "-Wall", "-Werror", "-o", program, SOURCE], check=True)
    return [str(program), *(f"{kind}:{soft}:{hard}" for kind, (soft, hard) in HELD.items())]


def passed(command: list[str], fork_server: ForkServer | None = None) -> list[str]:
    """Which limits one child could pass, in the child's words."""
    ended = run_tool(command, LIMITS, fork_server=fork_server)
    said = ended.answer.decode().splitlines()
    return said[:-1] if said[-1:] == ["done"] else [*said, str(ended.ending)]


@contextlib.contextmanager
def busy(number: int):
    """Beside so many processes that never wait."""
    processes = [subprocess.Popen([sys.executable, "-I", "-S", "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.system.process.early_limits")
    parser.add_argument("--starts", type=int, default=1000)
    parser.add_argument("--busy", type=int, default=4)
    parser.add_argument(
        "--confined", action="store_true", help="started as disassemblers are, by the process kept for that"
    )
    chosen = parser.parse_args()
    late, found = 0, Counter[str]()
    with tempfile.TemporaryDirectory() as folder, ForkServer() as fork_server, busy(chosen.busy):
        command = built(Path(folder), os.environ.get("CC", "cc"))
        for _ in range(chosen.starts):
            each = passed(command, fork_server if chosen.confined else None)
            late += bool(each)
            found.update(each)
    print(f"{chosen.starts} starts beside {chosen.busy} busy processes: {late} had a limit late or none")
    for what, count in found.most_common():
        print(f"{count:>6}  {what}")
    return 1 if late else 0


if __name__ == "__main__":
    raise SystemExit(main())
