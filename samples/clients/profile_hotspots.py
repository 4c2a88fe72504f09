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
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np

from symd import Client
from symd.api import Symbolizer
from symd.config import Limits
from symd.engine.engine import Engine
from symd.profiles import NamedModule, Resolver, symbolize
from symd.profiles.protobuf_wire import fields, length_field, number_field, varint
from symd.store import Store

LOADED = 0xFFFF800100400000
"""Where the synthetic device loaded the module."""


def sampled(count: int, size: int) -> np.ndarray:
    """Kernel offsets: hotter at the beginning; the same for the same arguments."""
    return (np.random.default_rng(1).beta(1.2, 2, count) * (size // 8)).astype(np.uint64) * np.uint64(8)


def profile(offsets: np.ndarray, build_id: str) -> bytes:
    """A pprof profile: one sample an offset, one location a distinct offset, one mapping, no symbol."""
    places, which = np.unique(offsets, return_inverse=True)
    mapping = number_field(1, 1) + number_field(2, LOADED) + number_field(3, LOADED + (1 << 20)) + number_field(6, 3)
    pieces = [length_field(1, number_field(1, 1) + number_field(2, 2)), length_field(3, mapping)]
    for number, place in enumerate(places.tolist(), 1):
        location = number_field(1, number) + number_field(2, 1) + number_field(3, LOADED + place)
        pieces.append(length_field(4, location))
    samples = [length_field(2, length_field(1, varint(at + 1)) + length_field(2, b"\1")) for at in range(len(places))]
    pieces += [samples[at] for at in which.tolist()]
    pieces += [length_field(6, text.encode()) for text in ("", "samples", "count", build_id)]
    return gzip.compress(b"".join(pieces), 1)


def hottest(data: bytes) -> tuple[Counter[str], Counter[str]]:
    """Samples by innermost and by outermost line of a symbolized profile."""
    data = gzip.decompress(data)
    tables: dict[int, list[tuple[int, int]]] = {number: [] for number in range(1, 16)}
    for item in fields(data):
        tables[item.number].append((item.value, item.end))
    strings = [data[begin:end].decode() for begin, end in tables[6]]
    files = {}
    for begin, end in tables[5]:
        numbers = {item.number: item.value for item in fields(data, begin, end)}
        files[numbers[1]] = Path(strings[numbers.get(4, 0)]).name
    lines = [list(lines_of(data, begin, end, files)) for begin, end in tables[4]]
    inner: Counter[str] = Counter()
    user: Counter[str] = Counter()
    for content, weight in Counter(data[begin:end] for begin, end in tables[2]).items():
        [location] = [item for item in fields(content) if item.number == 1]
        number = sum((byte & 127) << 7 * at for at, byte in enumerate(content[location.value : location.end]))
        found = lines[number - 1] or ["(unknown)"]
        inner[found[0]] += weight
        user[found[-1]] += weight
    return inner, user


def lines_of(data: bytes, begin: int, end: int, files: dict[int, str]) -> Iterator[str]:
    """``file:line`` of each line of a location, innermost first."""
    for item in fields(data, begin, end):
        if item.number == 4:
            line = {inner.number: inner.value for inner in fields(data, item.value, item.end)}
            file = files[line[1]]
            yield f"{file}:{line.get(2, 0)}" if file else "(no line)"


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
