"""`make bench`: generates the workloads, checks that the peers agree, measures in turns, writes benchmarks/RESULTS.md.

`python -m benchmarks --short` measures small workloads a few times, prints, and writes nothing."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks import (
    agreement,
    answers,
    capture,
    cold,
    commands,
    grpc_path,
    known_modules,
    neighbour,
    one_by_one,
    peers,
    pipes,
    profile,
    profiles_and_stops,
    report,
    timeline,
    upload,
)
from benchmarks.grpc_path import Row
from benchmarks.workloads import amdgpu_many, cuda, igc, tiny_objects
from symd.config import Limits
from symd.index import Index
from symd.index.module import build_index
from symd.query.symbolize import symbolize_column

TINY_OBJECTS = 22_890
SMALL = Path(__file__).parents[1] / "samples" / "kernels" / "bin" / "vadd" / "dg2-opt.zebin"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="small workloads, three rounds, nothing written")
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args(arguments)
    if not shutil.which(peers.LLVM):
        print(f"{peers.LLVM} is not installed: `make tools` installs it", file=sys.stderr)
        return 2
    rounds = 3 if chosen.short else chosen.rounds
    linked, ten_times = amdgpu_files(400 if chosen.short else 4000)
    told, rows = [], []
    with tempfile.TemporaryDirectory() as folder:
        told += compared(linked)
        print(*told, sep="\n", flush=True)
        text = answers.Text(linked)
        container, cubin = container_file(100 if chosen.short else 1000), cubin_file(50 if chosen.short else 1000)
        parts = (
            cold.rows(linked, ten_times, text.debug_bytes, rounds),
            whole_indexes(container, chosen.short),
            answers.rows(linked, Path(folder), rounds),
            pipes.rows(linked, rounds),
            commands.rows(linked, rounds, 50 if chosen.short else 2000),
            (answers.first_of_many(container, Path(folder), rounds) for _ in range(1)),
            (answers.among_many(SMALL.read_bytes(), Path(folder), 200 if chosen.short else 2000, rounds) for _ in "1"),
            (
                row
                for row in grpc_path.rows(
                    linked, SMALL.read_bytes(), rounds=rounds, modules=200 if chosen.short else 2000
                )
            ),
            profiles_and_stops.rows(linked, rounds),
            (upload.row(linked, rounds) for _ in "1"),
            one_by_one.rows(linked, rounds),
            (neighbour.fairness(linked, 1 if chosen.short else rounds) for _ in "1"),
            (known_modules.row(SMALL.read_bytes(), *((500, 100) if chosen.short else (10_000, 2_000))) for _ in "1"),
            timeline.rows(rounds),
            capture.breakpoint_rows(),
            capture.rows(20 if chosen.short else 500, rounds),
        )
        for part in parts:
            for row in part:
                print(report.line(row), flush=True)
                rows.append(row)
        others = [profile.whole_index(path) for path in (container, cubin) if path]
    if not cubin:
        others.append("large cubin: skipped, nvcc is not installed")
    print(*others, sep="\n")
    if not chosen.short:
        profiles = {
            "Where the time of a cold index goes (one process, warm, medians)": profile.stages(linked),
            "Where the time of the first question about a stored index goes (medians)": profile.first_question(linked),
            "What one address costs beside an empty call of gRPC (medians)": profile.single_call(linked),
        }
        report.write(rows, told, others, profiles)
    return 0


def whole_indexes(container: Path, short: bool) -> Iterator[Row]:
    """Modules of many code objects."""
    yield cold.whole(f"whole index of the container {container.name}", container, 0.35, 0.15, 3)
    archive = archive_file(500 if short else TINY_OBJECTS)
    yield cold.whole(f"whole index of the archive {archive.name}", archive, 15, 6, 1)


def amdgpu_files(kernels: int) -> tuple[Path, Path]:
    """The linked object and one ten times as large."""
    name = peers.CACHE / f"amdgpu-{kernels}.co"
    one, ten = (name.with_name(f"{name.stem}-{count}.co") for count in (1, 10))
    if not (one.exists() and ten.exists()):
        peers.CACHE.mkdir(parents=True, exist_ok=True)
        print("generating", one.name, "and", ten.name, flush=True)
        amdgpu_many.build(kernels, 8, name, (1, 10))
    return one, ten


def container_file(kernels: int) -> Path:
    path = peers.CACHE / f"igc-{kernels}.dbg"
    if not path.exists():
        igc.build(kernels, path)
    return path


def archive_file(objects: int) -> Path:
    path = peers.CACHE / f"tiny-{objects}.a"
    if not path.exists():
        tiny_objects.build(objects, path)
    return path


def cubin_file(kernels: int) -> Path | None:
    path = peers.CACHE / f"many-{kernels}.cubin"
    if not path.exists() and cuda.available():
        print("generating", path.name, flush=True)
        cuda.build(kernels, path)
    return path if path.exists() else None


def compared(path: Path) -> list[str]:
    index = Index(build_index(path.read_bytes(), Limits()))
    addresses = np.unique(answers.Text(path).addresses(1000, 9))
    return agreement.check(path, addresses, symbolize_column(index, addresses))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
