"""The memory of a daemon that knows many modules and was asked about some of them.

`python -m benchmarks.known_modules SMALL` prints the row; SMALL is a small module, of which copies stand for many.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import report
from benchmarks.grpc_path import Row
from symd import Client
from symd.engine.engine import Engine
from symd.model.addresses import ByKernel, KernelOffset
from symd.store import Store

MIB = 1 << 20


def row(small: bytes, known: int, opened: int) -> Row:
    """Memory is what of the daemon's process is resident; that of the processes which read modules for it is told beside it."""
    chance = random.Random(8)
    with tempfile.TemporaryDirectory() as folder:
        with Engine(Store(Path(folder, "store"), durable=False)) as engine:
            digests = [engine.add(small + number.to_bytes(4, "little")).sha256 for number in range(known)]
            kernel = next(kernel for each in engine.module(digests[0]).objects for kernel in each.kernels)
        query = ByKernel(kernel.name, KernelOffset(0))
        address = f"unix:{folder}/s"
        serve = (sys.executable, "-m", "symd", "serve", "--address", address, "--store", f"{folder}/store")
        with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as daemon:
            try:
                assert daemon.stdout is not None
                daemon.stdout.readline()
                with Client(address, timeout=60) as client:
                    client.server_info()
                    begun = memory(daemon.pid, "Rss")
                    for digest in chance.sample(digests, opened):
                        assert client.symbolize_one(digest, query).kernel == kernel.name
                    taken = memory(daemon.pid, "Rss")
                    readers = sum(memory(child, "Pss") for child in children(daemon.pid))
            finally:
                daemon.terminate()
    detail = f"{begun:.0f} MB before the first question; processes that read modules for it: {readers:.0f} MB together"
    return Row(f"{known:,} modules known and {opened:,} open: memory of the daemon, MB", taken, 400, 200, False, detail)


def memory(pid: int, what: str) -> float:
    """MB of a process, as proc(5) counts them: all of it that is resident ("Rss"), or with its share of what others have too ("Pss")."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(f"{what}:"))) * 1024 / MIB


def children(pid: int) -> list[int]:
    """The processes that a process has started, and that run."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for each in tasks for child in each.read_text(encoding="ascii").split()]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("small", type=Path)
    parser.add_argument("--known", type=int, default=10_000)
    parser.add_argument("--open", type=int, default=2_000)
    chosen = parser.parse_args(arguments)
    print(report.line(row(chosen.small.read_bytes(), chosen.known, chosen.open)))


if __name__ == "__main__":
    main(sys.argv[1:])
