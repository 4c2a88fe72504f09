"""`make bench-batch`: samples in Parquet to locations, frames and hot lines: `symd batch`, Ray with two workers, and DuckDB that joins
plain columns. First every way gives the same frames, and those of llvm-symbolizer at a sample of addresses. Prints rows a second.

`python -m benchmarks.batch --rows 100000` is the short form, which a test runs."""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks import peers
from benchmarks.answers import Text
from symd.engine.engine import Engine
from symd.store import Store

ROWS_A_GROUP = 1 << 20
CHECKED = 1000
"""Addresses at which llvm-symbolizer is asked."""
ADDRESSES = 1 << 16
"""Distinct addresses: what a profile of a large program has."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--module", type=Path, help="a linked code object; that of `make bench` by default")
    parser.add_argument("--without-ray", action="store_true")
    chosen = parser.parse_args(arguments)
    module = chosen.module or _generated()
    with tempfile.TemporaryDirectory(dir=peers.CACHE if peers.CACHE.exists() else None) as name:
        folder = Path(name)
        samples, store = folder / "samples.parquet", folder / "store"
        write_samples(samples, module, store, chosen.rows)
        print(
            f"{chosen.rows:,} samples, {samples.stat().st_size / 1e6:,.0f} MB, of {module.name}; {_machine()}",
            flush=True,
        )
        for way in ways(samples, store, folder, with_ray=not chosen.without_ray):
            measured(way, chosen.rows)
        agree(folder, module)
    return 0


def write_samples(path: Path, module: Path, store: Path, rows: int) -> None:
    """A file of ``rows`` samples, row group after row group: a few addresses are hot, most are rare; the module is in the store."""
    with Engine(Store(store)) as engine:
        digest = engine.add(module.read_bytes(), module.name).sha256
        engine.module(digest)
    addresses = np.unique(Text(module).addresses(ADDRESSES, 1))
    chooser = np.random.default_rng(2)
    schema = pa.schema([("module", pa.string()), ("address", pa.uint64()), ("weight", pa.int32())])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, ROWS_A_GROUP):
            count = min(ROWS_A_GROUP, rows - start)
            at = addresses[(len(addresses) * chooser.random(count) ** 3).astype(np.int64)]
            names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), [digest]).cast(pa.string())
            weight = chooser.integers(1, 50, count, dtype=np.int32)
            writer.write_table(pa.Table.from_arrays([names, pa.array(at), pa.array(weight)], schema=schema))


Way = tuple[str, Callable[[], object]]


def ways(samples: Path, store: Path, folder: Path, *, with_ray: bool) -> Iterator[Way]:
    command = [sys.executable, "-m", "symd", "batch", "--store", str(store)]
    for form in ("hot-lines", "locations", "samples"):
        call = [*command, "--out-form", form, str(samples), str(folder / f"out-{form}.parquet")]
        yield f"symd batch --out-form {form}", lambda call=call: subprocess.run(call, check=True, capture_output=True)
    program = [sys.executable, "-m", "benchmarks.batch_engines"]
    paths = [str(samples), str(store), str(folder)]
    yield (
        f"DuckDB {version('duckdb')}, a join with the distinct places, hot lines",
        lambda: subprocess.run([*program, "duckdb", *paths], check=True),
    )
    yield (
        "pyarrow reads the file, and writes it: no question asked",
        lambda: subprocess.run([*program, "copy", *paths], check=True),
    )
    if with_ray:
        yield (
            f"Ray {version('ray')}, two workers, hot lines (its start included)",
            lambda: subprocess.run([*program, "ray", *paths], check=True, stderr=subprocess.DEVNULL),
        )


def measured(way: Way, rows: int) -> None:
    """Run it once, and say how fast it was: by the clock, and by the processor time of all its processes."""
    name, run = way
    begun, spent = time.perf_counter(), os.times()
    run()
    seconds = time.perf_counter() - begun
    now = os.times()
    busy = now.children_user + now.children_system - spent.children_user - spent.children_system
    print(
        f"{rows / seconds / 1e6:8.2f} M rows/s, {seconds:7.1f} s, processor {busy:7.1f} s: {name}; load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


def agree(folder: Path, module: Path) -> None:
    """Raises AssertionError where two ways differ, or one differs from llvm-symbolizer."""
    order = [(name, "ascending") for name in ("file", "line", "function", "reason", "weight")]

    def lines(name: str) -> list[dict[str, object]]:
        table = pq.read_table(folder / name).select([name for name, _ in order])
        return table.filter(pc.greater(table["weight"], 0)).sort_by(order).to_pylist()

    first = lines("out-hot-lines.parquet")
    for name in ("duckdb", "ray"):
        if (folder / f"{name}.parquet").exists():
            assert lines(f"{name}.parquet") == first, name
            print(f"{name}: the same {len(first):,} lines with the same weights")
    described = {row["location"]: row for row in pq.read_table(folder / "out-locations.locations.parquet").to_pylist()}
    numbers = pq.ParquetFile(folder / "out-locations.parquet").read_row_group(0, ["address", "location"]).to_pylist()
    frames = pq.ParquetFile(folder / "out-samples.parquet").read_row_group(0, ["reason", "frames"]).to_pylist()
    for number, row in zip(numbers, frames, strict=False):
        assert described[number["location"]]["frames"] == row["frames"]
    chosen = {number["address"]: row for number, row in zip(numbers, frames, strict=False)}
    asked = random.Random(3).sample(sorted(chosen), min(CHECKED, len(chosen)))
    exact = 0
    for address, theirs in zip(asked, peers.llvm(module, asked), strict=True):
        if chosen[address]["reason"] == "EXACT":
            exact += 1
            ours = [
                (f["function"] or "??", (f["file"] or "??").rsplit("/", 1)[-1], f["line"] or 0)
                for f in chosen[address]["frames"]
            ]
            assert ours == theirs, (hex(address), ours, theirs)
    assert exact
    print(f"{peers.LLVM}: all frames of {exact} of {len(asked)} addresses")


def _generated() -> Path:
    from benchmarks.__main__ import amdgpu_files  # noqa: PLC0415 - compiles

    return amdgpu_files(4000)[0]


def _machine() -> str:
    return f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}, pyarrow {pa.__version__}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
