"""The figures of docs/reliability.md that this machine can give again.

python tools/reliability.py workers   what it costs to have a small module indexed by another process
python tools/reliability.py start     how long a daemon takes to answer over a store of 2,000 modules, and its memory
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from symd import Client
from symd.config import Limits
from symd.model.addresses import ByAddress, ObjectAddress
from symd.reading.module_file import ModuleFile
from symd.reading.questions import MakeIndex, ObjectBytes
from symd.reading.reader import InProcessReader, Reader
from symd.service.workers import Workers
from symd.store import Store

SAMPLE = Path(__file__).parents[1] / "samples/kernels/bin/vadd/dg2-opt.zebin"
"""A module of 11 KB."""
ROUNDS = 50
MODULES = 2000


def median_ms(call: Callable[[int], object]) -> float:
    times = []
    for number in range(ROUNDS):
        begun = time.perf_counter()
        call(number)
        times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e3


def workers() -> None:
    """The same questions, asked of this process and of warm workers, about modules that were never seen before."""
    with tempfile.TemporaryDirectory() as folder, Workers(Limits(), 1, 1) as elsewhere:
        into, files = Path(folder, "index"), [module(Path(folder), number) for number in range(ROUNDS)]
        into.touch()
        readers: dict[str, Reader] = {"this process": InProcessReader(Limits()), "a worker": elsewhere}
        for name, reader in readers.items():
            reader.ask(files[0], MakeIndex(str(into)))
            index = median_ms(lambda number, ask=reader.ask: ask(files[number], MakeIndex(str(into))))
            again = median_ms(lambda _, ask=reader.ask: ask(files[0], ObjectBytes("")))
            print(f"{name:<14} index {index:6.1f} ms   a question about a module that is open {again:5.2f} ms")


def module(folder: Path, number: int) -> ModuleFile:
    data = SAMPLE.read_bytes() + bytes(8 * number)
    path = folder / hashlib.sha256(data).hexdigest()
    path.write_bytes(data)
    return ModuleFile(path.name, str(path))


def start() -> None:
    """From the command to the first answer."""
    with tempfile.TemporaryDirectory() as folder:
        data = SAMPLE.read_bytes()
        with Store(Path(folder, "store"), durable=False) as store:
            digests = [store.put(data + bytes(8 * number), format="zebin") for number in range(MODULES)]
        address = f"unix:{folder}/socket"
        command = [sys.executable, "-m", "symd", "serve", "--address", address, "--store", f"{folder}/store"]
        begun = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as daemon, Client(address) as client:
            assert daemon.stdout is not None  # noqa: S101 - asked for above
            daemon.stdout.readline()
            ready = time.perf_counter() - begun
            client.symbolize_one(digests[-1], ByAddress(ObjectAddress(0x40)))
            answered = time.perf_counter() - begun
            status = Path(f"/proc/{daemon.pid}/status").read_text().splitlines()
            daemon.terminate()
        memory = next(line for line in status if line.startswith("VmHWM")).split()[1]
        print(f"{MODULES} modules: ready after {ready:.2f} s, first answer {answered:.2f} s, {int(memory) >> 10} MiB")


def main() -> int:
    figures = {"workers": workers, "start": start}
    parser = argparse.ArgumentParser(description="Figures of docs/reliability.md.")
    parser.add_argument("figure", choices=figures)
    figures[parser.parse_args().figure]()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
