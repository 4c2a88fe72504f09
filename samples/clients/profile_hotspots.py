"""A profiler's whole file: a synthetic pprof profile of a million samples without symbols is symbolized in place, and its ten
hottest source lines are shown twice: where the instructions come from (innermost, often a library's line), and where
the user called that (outermost).

    python samples/clients/profile_hotspots.py samples/kernels/bin/tonemap/dg2-opt.dbg
"""

from __future__ import annotations

import argparse
import gzip
import signal
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np

from symd import Client
from symd.api import Symbolizer
from symd.config import Limits
from symd.engine.engine import Engine
from symd.profiles import NamedModule, Resolver, symbolize
from symd.store import Store
from symd.v1.pprof_pb2 import Line, Profile

LOADED = 0xFFFF800100400000
"""Where the synthetic device loaded the module."""


def sampled(count: int, size: int) -> np.ndarray:
    """Kernel offsets: hotter at the beginning; the same for the same arguments."""
    return (np.random.default_rng(1).beta(1.2, 2, count) * (size // 8)).astype(np.uint64) * np.uint64(8)


def profile(offsets: np.ndarray, build_id: str) -> bytes:
    """A pprof profile: one sample an offset, one location a distinct offset, one mapping, no symbol."""
    places, which = np.unique(offsets, return_inverse=True)
    made = Profile(string_table=[b"", b"samples", b"count", build_id.encode()])
    made.sample_type.add(type=1, unit=2)
    made.mapping.add(id=1, memory_start=LOADED, memory_limit=LOADED + (1 << 20), build_id=3)
    for number, place in enumerate(places.tolist(), 1):
        made.location.add(id=number, mapping_id=1, address=LOADED + place)
    for at in which.tolist():
        made.sample.add(location_id=[at + 1], value=[1])
    return gzip.compress(made.SerializeToString(), 1)


def hottest(data: bytes) -> tuple[Counter[str], Counter[str]]:
    """Samples by innermost and by outermost line of a symbolized profile."""
    read = Profile.FromString(gzip.decompress(data))
    files = {one.id: Path(read.string_table[one.filename].decode()).name for one in read.function}
    lines = {one.id: [line_of(line, files) for line in one.line] or ["(unknown)"] for one in read.location}
    inner: Counter[str] = Counter()
    user: Counter[str] = Counter()
    for number, weight in Counter(sample.location_id[0] for sample in read.sample).items():
        inner[lines[number][0]] += weight
        user[lines[number][-1]] += weight
    return inner, user


def line_of(line: Line, files: dict[int, str]) -> str:
    """``file:line`` of a line of a location."""
    file = files[line.function_id]
    return f"{file}:{line.line}" if file else "(no line)"


def symbolizer(server: str | None) -> AbstractContextManager[Symbolizer]:
    return Client(server) if server else Engine(Store.temporary(Limits()), Limits())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("module", type=Path, help="a module of one kernel")
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--server", help="the daemon's address; without it this process does the work")
    arguments = parser.parse_args()
    with symbolizer(arguments.server) as symd:
        module = symd.add(arguments.module.read_bytes(), arguments.module.name)
        [kernel] = module.objects[0].kernels
        data = profile(sampled(arguments.samples, kernel.size), module.sha256)
        done = symbolize(data, Resolver(symd, [NamedModule(module.sha256, arguments.module.name)]))
    print(f"{done.report.resolved} of {done.report.total} {done.report.unit} resolved")
    for title, counts in zip(("innermost line", "user line"), hottest(done.data), strict=True):
        print(f"\n{title}")
        for name, weight in sorted(counts.items(), key=lambda row: (-row[1], row[0]))[:10]:
            print(f"{weight / arguments.samples:8.3%}  {name}")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # who reads no further, as head, ends this without a traceback
    main()
