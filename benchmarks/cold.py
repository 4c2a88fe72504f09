"""The cold index: symd, symbolic and pyelftools in turns, each time in a new process."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks import peers
from benchmarks.grpc_path import Row

MIB = 1 << 20


def rows(path: Path, ten_times: Path | None, debug_bytes: int, rounds: int) -> Iterator[Row]:
    """``debug_bytes`` is the size of the debug sections of ``path``."""
    with_symbolic = peers.symbolic_python() is not None
    jobs = ["index", *(["symcache"] if with_symbolic else []), "pyelftools"]
    runs = {job: [] for job in [*jobs, "ten times", "ten times, symcache"]}
    for _ in range(rounds):
        for job in jobs:
            runs[job].append(child(job, path))
        if ten_times:
            for job, kept in (("index", "ten times"), ("symcache", "ten times, symcache")):
                if job in jobs:
                    runs[kept].append(child(job, ten_times))
    mine = runs["index"]
    said = f"symd {middle(mine, 'seconds') * 1e3:.0f} ms"
    if with_symbolic:
        theirs = runs["symcache"]
        yield Row("full cold index vs symbolic's make_symcache", ratio(mine, theirs), 0.7, 0.5, False,
                  f"{said}, symbolic {middle(theirs, 'seconds') * 1e3:.0f} ms")  # fmt: skip
    slow = runs["pyelftools"]
    yield Row("the same, vs pyelftools reading lines and DIEs", 1 / ratio(mine, slow), 15, 30, True,
              f"{said}, pyelftools {middle(slow, 'seconds') * 1e3:.0f} ms")  # fmt: skip
    peak = middle(mine, "peak") / MIB
    others = ", ".join(f"{job} {middle(runs[job], 'peak') / MIB:.0f} MB" for job in jobs[1:])
    idle = child("nothing", path)["peak"] / MIB
    yield Row(
        "peak memory of the cold index, MB", peak, 250, 150, False, f"{idle:.0f} MB of it before any work; {others}"
    )
    stored = mine[0]["value"]
    yield Row("index on disk, % of the debug sections", 100 * stored / debug_bytes, 30, 15, False,
              f"{stored:,} of {debug_bytes:,} bytes")  # fmt: skip
    if ten_times:
        yield from of_ten_times(runs["ten times"], runs["ten times, symcache"], ten_times.stat().st_size)
        ten = runs["ten times"]
        detail = f"{middle(ten, 'seconds'):.2f} s, {middle(ten, 'peak') / MIB:.0f} MB"
        yield Row("ten times the rows: time", ratio(ten, mine), 11, 11, False, detail)
        yield Row("ten times the rows: memory", ratio(ten, mine, "peak"), 11, 11, False, detail)


def of_ten_times(mine: list[dict[str, float]], theirs: list[dict[str, float]], size: int) -> Iterator[Row]:
    """The cold index of a file of ``size`` bytes; its mapped pages count as memory, with symbolic's as with ours."""
    peak = f"{middle(mine, 'peak') / MIB:.0f} MB"
    if theirs:
        yield Row("cold index of ten times the rows vs symbolic's make_symcache", ratio(mine, theirs), 1.0, 0.6, False,
                  f"symd {middle(mine, 'seconds'):.2f} s, symbolic {middle(theirs, 'seconds'):.2f} s")  # fmt: skip
        peak += f", symbolic {middle(theirs, 'peak') / MIB:.0f} MB"
    yield Row("peak memory of that cold index, times the file", middle(mine, "peak") / size, 2.5, 2.0, False,
              f"{size / MIB:.0f} MB; {peak}")  # fmt: skip


def whole(what: str, path: Path, asked: float, reach: float, rounds: int) -> Row:
    """A module of many code objects, indexed whole: seconds."""
    runs = [child("index", path) for _ in range(rounds)]
    seconds, peak = middle(runs, "seconds"), middle(runs, "peak") / MIB
    detail = f"{path.stat().st_size:,} bytes, peak {peak:.0f} MB, index {runs[0]['value']:,} bytes"
    return Row(f"{what}: s", seconds, asked, reach, False, detail)


def child(job: str, path: Path) -> dict[str, float]:
    python = peers.symbolic_python() if job == "symcache" else sys.executable
    program = Path(__file__).with_name("child.py")
    environment = None if job == "symcache" else {"PYTHONPATH": str(Path(__file__).parents[1])}
    text = subprocess.run(
        [str(python), str(program), job, str(path)], capture_output=True, check=True, text=True, env=environment
    ).stdout
    return json.loads(text)


def middle(runs: list[dict[str, float]], what: str) -> float:
    return statistics.median(run[what] for run in runs)


def ratio(mine: list[dict[str, float]], theirs: list[dict[str, float]], what: str = "seconds") -> float:
    """The median of the ratios of each turn."""
    return statistics.median(one[what] / other[what] for one, other in zip(mine, theirs, strict=True))
