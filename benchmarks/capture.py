"""What `symd run` costs a program that builds many modules with the real drivers, simulated: elapsed time of the whole command, symd's own start
and end included, over that of the same program alone, in turns; and the program's memory.

`python -m benchmarks.capture [--modules N] [--rounds N]` measures these rows alone. The newer generation of drivers is measured where
`make live-new` has set it up, or where SYMD_LIVE_NEW_ROOT says that it is."""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from benchmarks import report
from benchmarks.grpc_path import Row
from symd import Client
from symd.capture.drivers.apis import APIS
from symd.capture.drivers.simulate import environment, launcher
from symd.model.breakpoints import Breakpoint, SourceLine
from symd.model.watches import Resolved

ROOT = Path(__file__).parents[1]
PROGRAMS = ROOT / "tests" / "live" / "programs"
SPIRV = ROOT / "samples" / "kernels" / "bin" / "vadd" / "opt.spv"
NEWER = Path(os.environ.get("SYMD_LIVE_NEW_ROOT") or ROOT / ".cache" / "live-new")
PRODUCT = "dg2"
ROUNDS = 3
"""At most: a round of the older generation's OpenCL takes minutes."""
DONE = 7
"""The exit status of a program of ours that built what it was told to."""
EMPTY = "/bin/true"


class Way(NamedTuple):
    """A way into a program, with the program that is reached so."""

    name: str
    api: str
    program: str
    loader: str
    files: tuple[str, ...] = ()


WAYS = (
    Way("opencl-layer", "opencl", "opencl_host", "libOpenCL.so.1"),
    Way("preload", "level-zero", "level_zero_host", "libze_loader.so.1", (str(SPIRV),)),
    Way("wrapper-driver", "level-zero", "level_zero_host", "libze_loader.so.1", (str(SPIRV),)),
)


class Run(NamedTuple):
    """A command that has ended: seconds on the clock and of processors, and the most memory of any process of it in KiB. That is the
    program's: symd's own process has less than a driver takes."""

    elapsed: float
    processor: float
    memory: int


class Turn(NamedTuple):
    """The same program alone and captured, one right after the other."""

    alone: Run
    captured: Run


def rows(modules: int, rounds: int) -> Iterator[Row]:
    """One row for each way and generation; none where a compiler, headers or a driver are missing."""
    with tempfile.TemporaryDirectory() as folder:
        for generation, root in generations().items():
            for way in WAYS:
                program = built(Path(folder), way)
                if program is None:
                    continue
                alone = [*launcher(APIS[way.api], root), str(program), "plain", str(modules), *way.files]
                captured = [*symd_run(way, Path(folder)), *alone]
                if run([*alone[: -1 - len(way.files)], "1", *way.files], root) is None or run(captured, root) is None:
                    continue
                started = [ended for _ in range(5) if (ended := run([*symd_run(way, Path(folder)), EMPTY], root, 0))]
                yield row(
                    f"{way.name}, {generation}", modules, turns(alone, captured, root, min(rounds, ROUNDS)), started
                )


def generations() -> dict[str, str | None]:
    """The folders of the generations of drivers that are here; None is the system's."""
    newer = {"newer drivers": str(NEWER)} if (NEWER / "versions.txt").exists() else {}
    return {"older drivers": None, **newer}


def breakpoint_rows() -> Iterator[Row]:
    """How long after its module was created a breakpoint fires that was set before the program started, for each generation; each module is
    new to the daemon, which indexes it first. The ratio is to the 100 ms that it may take."""
    way = next(each for each in WAYS if each.name == "preload")
    for generation, root in generations().items():
        with tempfile.TemporaryDirectory() as folder:
            program = built(Path(folder), way)
            times = fired(Path(folder), [*launcher(APIS[way.api], root), str(program)], root) if program else []
        if times:
            detail = f"median of {len(times)} modules {statistics.median(times):.0f} ms, at most {max(times):.0f} ms, at least {min(times):.0f} ms"
            what = (
                f"a breakpoint set before the program starts fires within 100 ms of its module's creation, {generation}"
            )
            yield Row(what, statistics.median(times) / 100, 1.0, 0.5, False, detail)


def fired(folder: Path, program: Sequence[str], root: str | None) -> list[float]:
    """Milliseconds from each module's creation to the event of its breakpoint, with the load; the first module is left out, for a
    daemon that begins. [] where there is no driver."""
    built_of_c = (path.parent.name for path in SPIRV.parents[1].glob("*/opt.spv"))
    kernels = sorted(name for name in built_of_c if (ROOT / "samples" / "kernels" / f"{name}.cl").exists())
    files = [str(SPIRV.parents[1] / kernel / "opt.spv") for kernel in kernels]
    address = f"unix:{folder}/socket"
    serve = [sys.executable, "-m", "symd", "serve", "--address", address, "--store", f"{folder}/store"]
    captured = [
        sys.executable,
        "-m",
        "symd",
        "run",
        "--quiet",
        "--server",
        address,
        "--",
        *program,
        "plain",
        "1",
        *files,
    ]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT) as daemon:
        assert daemon.stdout is not None
        daemon.stdout.readline()
        try:
            with (
                Client(address) as client,
                client.watch([Breakpoint(kernel, SourceLine(f"{kernel}.cl", 1)) for kernel in kernels]) as watch,
            ):
                next(watch)
                telling = threading.Thread(target=run, args=(captured, root))
                telling.start()
                closing = threading.Timer(60, watch.close)
                closing.start()
                times = []
                for event in watch:
                    if isinstance(event, Resolved) and event.loaded is not None:
                        now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
                        times.append((now - event.loaded.load.time) / 1e6)
                        if len(times) == len(kernels):
                            break
                closing.cancel()
                telling.join()
        finally:
            daemon.terminate()
    return times[1:]


def built(folder: Path, way: Way) -> Path | None:
    program = folder / way.program
    words = ["cc", "-O1", "-pthread", "-o", str(program), str(PROGRAMS / f"{way.program}.c"), f"-l:{way.loader}"]
    if shutil.which("cc") is None:
        return None
    return program if subprocess.run(words, check=False, capture_output=True).returncode == 0 else None


def symd_run(way: Way, folder: Path) -> list[str]:
    out = str(folder / "out")
    return [sys.executable, "-m", "symd", "run", "--quiet", "--way", way.name, "--out", out, "--"]


def run(command: Sequence[str], root: str | None, status: int = DONE) -> Run | None:
    """None where it ended otherwise."""
    variables = environment(os.environ, PRODUCT, root) | {"PYTHONPATH": str(ROOT)}
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a device
        begun = time.perf_counter()
        process = subprocess.Popen(command, stdout=nowhere, stderr=nowhere, cwd=ROOT, env=variables)
        _, ended, used = os.wait4(process.pid, 0)
        elapsed = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(ended)
    if process.returncode != status:
        return None
    return Run(elapsed, used.ru_utime + used.ru_stime, used.ru_maxrss)


def turns(alone: Sequence[str], captured: Sequence[str], root: str | None, rounds: int) -> list[Turn]:
    """One after the other, and the other first in every second round."""
    found = []
    for number in range(rounds):
        if number % 2:
            second, first = run(captured, root), run(alone, root)
        else:
            first, second = run(alone, root), run(captured, root)
        if first is not None and second is not None:
            found.append(Turn(first, second))
    return found


def row(what: str, modules: int, measured: Sequence[Turn], started: Sequence[Run]) -> Row:
    ratio = statistics.median(captured.elapsed / alone.elapsed for alone, captured in measured)
    processor = statistics.median(captured.processor / alone.processor for alone, captured in measured)
    memory = statistics.median((captured.memory - alone.memory) / 1024 for alone, captured in measured)
    alone, captured = (statistics.median(each.elapsed for each in side) for side in zip(*measured, strict=True))
    own = statistics.median(each.elapsed for each in started)
    detail = (
        f"{captured:.2f} s, {alone:.2f} s alone; symd's start and end in it {own:.2f} s; processor time {processor:.2f} times; "
        f"the program's memory {memory:+.1f} MiB"
    )
    return Row(f"a program of {modules} modules under `symd run`, {what}", ratio, 1.05, 1.02, False, detail)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modules", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    chosen = parser.parse_args(arguments)
    for each in chain(breakpoint_rows(), rows(chosen.modules, chosen.rounds)):
        print(report.line(each), f"(load {os.getloadavg()[0]:.1f})", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
