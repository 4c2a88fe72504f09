"""What `symd run` costs a program that builds many modules with the real drivers of this machine, simulated: processor time of all of it, symd's
own process, its start and its end included, over that of the same program alone, in turns."""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.grpc_path import Row
from symd.drivers.simulate import environment

ROOT = Path(__file__).parents[1]
PROGRAMS = ROOT / "tests" / "live" / "programs"
SPIRV = ROOT / "samples" / "kernels" / "bin" / "vadd" / "opt.spv"
PRODUCT = "dg2"
LOADERS = {"opencl_host": "libOpenCL.so.1", "level_zero_host": "libze_loader.so.1"}
WAYS = (
    ("opencl-layer", "opencl_host", lambda modules: ["plain", str(modules)]),
    ("preload", "level_zero_host", lambda modules: ["plain", str(modules), str(SPIRV)]),
    ("wrapper-driver", "level_zero_host", lambda modules: ["plain", str(modules), str(SPIRV)]),
)


def rows(modules: int, rounds: int) -> Iterator[Row]:
    """One row for each way; none where a compiler, headers or a driver are missing."""
    with tempfile.TemporaryDirectory() as folder:
        for way, name, arguments in WAYS:
            program = built(Path(folder), name)
            if program is None:
                continue
            bare = [str(program), *arguments(modules)]
            out = str(Path(folder) / "out")
            ours = [sys.executable, "-m", "symd", "run", "--quiet", "--way", way, "--out", out, "--", *bare]
            if seconds(bare) is None:
                continue
            yield row(way, modules, turns(bare, ours, rounds), kibibytes(ours) - kibibytes(bare))


def built(folder: Path, name: str) -> Path | None:
    program = folder / name
    words = ["cc", "-O1", "-pthread", "-o", str(program), str(PROGRAMS / f"{name}.c"), f"-l:{LOADERS[name]}"]
    if shutil.which("cc") is None:
        return None
    return program if subprocess.run(words, check=False, capture_output=True).returncode == 0 else None


def seconds(command: Sequence[str]) -> float | None:
    """Processor time that it takes, with what it starts; None where there is no driver."""
    variables = environment(os.environ, PRODUCT, None) | {"PYTHONPATH": str(ROOT)}
    begun = processor_seconds()
    ended = subprocess.run(command, check=False, capture_output=True, cwd=ROOT, env=variables)
    return processor_seconds() - begun if ended.returncode == 7 else None


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def turns(bare: Sequence[str], ours: Sequence[str], rounds: int) -> list[tuple[float, float]]:
    pairs = ((seconds(bare), seconds(ours)) for _ in range(rounds))
    return [(alone, captured) for alone, captured in pairs if alone is not None and captured is not None]


def kibibytes(command: Sequence[str]) -> int:
    """The most memory of any process of it that the program itself is, by what time(1) says of its children."""
    script = "import resource, subprocess, sys; subprocess.run(sys.argv[1:]); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    variables = environment(os.environ, PRODUCT, None) | {"PYTHONPATH": str(ROOT)}
    said = subprocess.run(
        [sys.executable, "-c", script, *command], check=True, capture_output=True, text=True, cwd=ROOT, env=variables
    )
    return int(said.stdout.split()[-1])


def row(way: str, modules: int, pairs: Sequence[tuple[float, float]], more: int) -> Row:
    ratio = statistics.median(captured / alone for alone, captured in pairs)
    alone, captured = (statistics.median(each) for each in zip(*pairs, strict=True))
    detail = f"{captured:.2f} s of a processor, {alone:.2f} s alone; {more / 1024:+.1f} MiB in the largest process"
    return Row(f"a program of {modules} modules under `symd run`, {way}", ratio, 1.05, 1.02, False, detail)
