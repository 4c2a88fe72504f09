"""The figures of docs/reliability.md that this machine can give again.

python tools/reliability.py workers   what it costs to have a small module indexed by another process
python tools/reliability.py start     how long a daemon takes to answer over a store of 2,000 modules, and its memory
python tools/reliability.py watch     from a program's load of a module to a breakpoint in it that waited, and what a watch costs those who load
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from symd import Client
from symd.capture.daemon_sink import DaemonSink
from symd.config import Limits
from symd.engine.reading import ModuleFile
from symd.engine.reading.questions import InProcessReader, MakeIndex, ObjectBytes, Reader
from symd.model.addresses import ByAddress, DeviceAddress, ObjectAddress
from symd.model.breakpoints import Breakpoint, SourceLine
from symd.model.captures import CaptureApi, CapturedProcess, CaptureWay, ModuleForm, ModuleLoaded
from symd.model.contexts import Context, Load
from symd.model.watches import Resolved
from symd.server.workers import Workers
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


def watch() -> None:
    """From what a way into a program sees to the two events of a breakpoint: in a daemon of its own, each module a new one."""
    with tempfile.TemporaryDirectory() as folder:
        address = f"unix:{folder}/socket"
        command = [sys.executable, "-m", "symd", "serve", "--address", address, "--store", f"{folder}/store"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as daemon:
            assert daemon.stdout is not None  # noqa: S101 - asked for above
            daemon.stdout.readline()
            with Client(address) as told, Client(address) as waiting:
                added, loaded = _fired(DaemonSink(told), waiting)
                _told_to(told, waiting)
            daemon.terminate()
    for name, seconds in (("added", added), ("loaded", loaded)):
        print(
            f"a breakpoint fires, {name:<7} {statistics.median(seconds) * 1e3:6.1f} ms, at most {max(seconds) * 1e3:.1f} ms"
        )


def _fired(sink: DaemonSink, waiting: Client) -> tuple[list[float], list[float]]:
    """Seconds from each load to the event that its module was added, and to the one that it was loaded."""
    data, program = SAMPLE.read_bytes(), CapturedProcess("host", 1, 1)
    added, loaded = [], []
    with waiting.watch([Breakpoint("b", SourceLine("vadd.cl", 8))]) as events:
        next(events)
        for number in range(ROUNDS + 1):
            event = ModuleLoaded(
                program, CaptureApi.LEVEL_ZERO, CaptureWay.PRELOAD, number, number + 1, ModuleForm.DEBUG_DATA,
                data + bytes(8 * number), "gpu", ("vadd",), {"vadd": DeviceAddress(0x10000 * (number + 1))},
            )  # fmt: skip
            telling = threading.Thread(target=sink.take, args=(event,))
            begun = time.perf_counter()
            telling.start()
            for times in (added, loaded):
                next(event for event in events if isinstance(event, Resolved))
                times.append(time.perf_counter() - begun)
            telling.join()
    return added[1:], loaded[1:]  # the first waits for what a daemon does when it begins


def _told_to(told: Client, waiting: Client) -> None:
    """Loads told a second, with nobody who watches and with watches of modules."""
    for watches in (0, 16):
        name = told.contexts.add(Context(process=watches + 2))
        loads = [Load("ab" * 32, number, key=str(number)) for number in range(10_000)]
        with ExitStack() as stack:
            for _ in range(watches):
                stack.enter_context(waiting.watch(only_new=True))
            begun = time.perf_counter()
            for first in range(0, len(loads), 1000):
                told.contexts.record(name, loads[first : first + 1000])
            print(f"{len(loads) / (time.perf_counter() - begun):9.0f} loads a second, {watches} watches")


def main() -> int:
    figures = {"workers": workers, "start": start, "watch": watch}
    parser = argparse.ArgumentParser(description="Figures of docs/reliability.md.")
    parser.add_argument("figure", choices=figures)
    figures[parser.parse_args().figure]()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
