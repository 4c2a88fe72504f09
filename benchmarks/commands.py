"""Whole commands beside a peer's: processor time (user and system) of the process and of its children, in turns, and the peak of memory.

`python -m benchmarks.commands OBJECT` prints the rows; OBJECT is a linked AMDGPU code object. Large libraries of NVIDIA's and AMD's are measured where they are at hand
(``LIBRARIES``), and skipped with a word where they are not."""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks import peers, report
from benchmarks.answers import Text
from benchmarks.grpc_path import Row

SYMD = Path(sys.executable).with_name("symd")
ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "samples"
OF_FORMATS = {
    "an Intel zebin": (SAMPLES / "kernels/bin/vadd/dg2-opt.zebin", "vadd+0x100"),
    "an IGC container": (SAMPLES / "kernels/bin/vadd/dg2-opt.dbg", "vadd+0x100"),
    "a cubin": (SAMPLES / "cuda/bin/tonemap.sm_80.ptxas-12.0.cubin", "tonemap+0x100"),
    "a SPIR-V module": (SAMPLES / "kernels/bin/vadd/O0.spv", "vadd+0x40"),
}
SMALL_CUBIN = SAMPLES / "cuda/bin/tonemap.sm_80.ptxas-12.0.cubin"
"""A module of some kilobytes; copies of it are told apart by the bytes behind its end."""
CUOBJDUMP = ("cuobjdump", "-res-usage")
OFFLOADING = ("llvm-objdump-22", "--offloading")


class Library(NamedTuple):
    """A library, and the wheel that has it, which unpacks to ``LIBRARIES / name``; ``peer`` lists its kernels."""

    name: str
    wheel: str
    file: str
    peer: tuple[str, ...]
    asked: float
    reach: float


LIBRARIES = peers.CACHE / "libraries"
"""Wheels unpacked by name: `pip download --no-deps WHEEL; unzip -d .cache/bench/libraries/NAME WHEEL.whl`."""
LARGE = (
    Library("NCCL", "nvidia-nccl-cu12==2.32.3", "nvidia/nccl/lib/libnccl.so.2", CUOBJDUMP, 2.5, 1.5),
    Library(
        "cuSPARSE", "nvidia-cusparse-cu12==12.5.10.65", "nvidia/cusparse/lib/libcusparse.so.12", CUOBJDUMP, 3.0, 2.0
    ),
    Library(
        "JAX's ROCm plug-in",
        "jax-rocm7-pjrt==0.12.0",
        "jax_plugins/xla_rocm7/xla_rocm_plugin.so",
        OFFLOADING,
        1.5,
        1.0,
    ),
)
ONE_QUESTION = """import sys, symd
with symd.open(sys.argv[1]) as module:
    print(module.symbolize(sys.argv[2]).frames)"""


ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""Python keeps what it compiles, as it does for users."""
_LEAST_LISTED = 100
"""Lines of a peer that lists the kernels of a library."""


class Usage(NamedTuple):
    """Processor time in ms, and the largest process in MB."""

    cpu: float
    peak: float


def rows(path: Path, rounds: int, collected: int = 2000) -> Iterator[Row]:
    """Of small files, then of the libraries that are at hand. ``path`` is a linked AMDGPU code object."""
    bare = (sys.executable, "-c", "pass")
    yield _compared("symd --version vs a bare python -c pass", (SYMD, "--version"), bare, 2.5, 1.8, rounds * 4)
    peer = (peers.LLVM, f"--obj={path}", hex(int(Text(path).addresses(1, 3)[0])))
    for what, (file, query) in OF_FORMATS.items():
        title = f"symd symbolize {what} ADDRESS vs llvm-symbolizer on the linked object"
        yield _compared(title, (SYMD, "symbolize", file, query), peer, 1.2, 0.9, rounds * 2)
    yield _collected(collected)
    for library in LARGE:
        yield from _of_library(library, rounds)


def _of_library(library: Library, rounds: int) -> Iterator[Row]:
    file = LIBRARIES / library.name / library.file
    if not file.exists() or not shutil.which(library.peer[0]):
        missing = library.peer[0] if file.exists() else f"{library.wheel} in {LIBRARIES.relative_to(ROOT)}"
        print(f"{library.name}: skipped, {missing} is not at hand", flush=True)
        return
    listed = subprocess.run([*library.peer, file], capture_output=True, check=False).stdout
    if listed.count(b"\n") < _LEAST_LISTED:
        print(f"{library.name}: skipped, this {library.peer[0]} does not see what is in it", flush=True)
        return
    size = file.stat().st_size >> 20
    title = f"symd info {library.name} ({library.wheel}, {size} MB) vs {' '.join(library.peer)}"
    yield _compared(title, (SYMD, "info", file), (*library.peer, file), library.asked, library.reach, rounds)
    query = _first_kernel(file) + "+0"
    title = f"symd.open({library.name}).symbolize(one) in Python vs symd symbolize"
    in_python, command = (sys.executable, "-c", ONE_QUESTION, file, query), (SYMD, "symbolize", file, query)
    yield _compared(title, in_python, command, 1.2, 1.0, rounds)


def _first_kernel(file: Path) -> str:
    listed = subprocess.run([SYMD, "info", file], capture_output=True, text=True, check=True).stdout
    return next(line for line in listed.splitlines() if "kernel  " in line).split("kernel  ")[1].split("  ")[0]


def _collected(count: int) -> Row:
    """A folder of small cubins to a daemon: ms of the command, the daemon and its workers for each; the peer is what `symd info` does of one in this process."""
    from symd.config import Limits  # noqa: PLC0415 - likewise
    from symd.formats import containers  # noqa: PLC0415 - symd is measured as a command elsewhere
    from symd.index.module import build_index  # noqa: PLC0415 - likewise

    data = SMALL_CUBIN.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        cubins = Path(folder) / "cubins"
        cubins.mkdir()
        old = time.time() - 60
        for number in range(count):
            (cubins / f"{number}.cubin").write_bytes(data + number.to_bytes(4, "little"))
            os.utime(cubins / f"{number}.cubin", (old, old))
        address = f"unix:{folder}/socket"
        with subprocess.Popen(
            [SYMD, "serve", "--address", address, "--store", f"{folder}/store"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=ENVIRONMENT,
        ) as daemon:
            assert daemon.stdout is not None
            daemon.stdout.readline()  # the address: it is ready
            mine = _usage((SYMD, "collect", "--once", "--server", address, cubins))
            daemon.terminate()
            _, _, spent = os.wait4(daemon.pid, 0)
            daemon.returncode = 0
    whole = (mine.cpu + (spent.ru_utime + spent.ru_stime) * 1e3) / count
    limits = Limits()
    build_index(data, limits)
    before = time.process_time()
    for _ in range(20):
        containers.unpack(data, limits)
        build_index(data, limits)
    alone = (time.process_time() - before) / 20 * 1e3
    detail = f"{whole:.1f} ms each, {mine.cpu / count:.1f} of them the command; facts and index in one process {alone:.1f} ms"
    what = f"symd collect of {count:,} small cubins by a daemon, processor time vs facts and index in one process"
    return Row(what, whole / alone, 2.5, 1.5, False, detail)


def _compared(
    what: str, mine: Sequence[object], peer: Sequence[object], asked: float, reach: float, rounds: int
) -> Row:
    """The median of the ratios of the turns, after one that compiles what is imported."""
    _usage(mine)
    turns = [(_usage(mine), _usage(peer)) for _ in range(rounds)]
    ratio = statistics.median(one.cpu / max(other.cpu, 1e-3) for one, other in turns)
    figures = " and ".join(
        f"{statistics.median(turn[at].cpu for turn in turns):,.0f} ms{_peak([turn[at].peak for turn in turns])}"
        for at in range(2)
    )
    return Row(f"{what}: processor time", ratio, asked, reach, False, figures)


def _peak(peaks: Sequence[float]) -> str:
    """A process is told to be as large as this one, which it was copied from, where it was smaller."""
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return f", {max(peaks):,.0f} MB" if max(peaks) > 1.02 * own else ""


def _usage(command: Sequence[object]) -> Usage:
    """Raises CalledProcessError where it fails."""
    words = [str(word) for word in command]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT) as process:
        _, status, spent = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, words)
    return Usage((spent.ru_utime + spent.ru_stime) * 1e3, spent.ru_maxrss / 1024)


if __name__ == "__main__":
    report.main(__doc__, rows)
