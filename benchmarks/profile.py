"""Where the time of a cold index goes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from symd import containers, debuginfo, index
from symd.cli.garbage import gc_paused
from symd.config import Limits
from symd.index.builder import DecodedObject
from symd.index.module import build_index
from symd.model.summaries import ModuleSummary

TIMES = 5


@gc_paused()  # as the process does that indexes for the daemon (symd/child/worker.py)
def stages(path: Path) -> list[str]:
    """Median milliseconds of each stage, in one process, warm."""
    data = path.read_bytes()
    seconds: dict[str, list[float]] = {}

    def stage(name: str, work: Callable[[], Any]) -> Any:
        begun = time.perf_counter()
        result = work()
        seconds.setdefault(name, []).append(time.perf_counter() - begun)
        return result

    for _ in range(TIMES):
        unpacked = stage(
            "containers.unpack: ELF, symbols, metadata of the kernels", lambda: containers.unpack(data, Limits())
        )
        indexed = [
            DecodedObject(
                code,
                stage("debuginfo.read: relocation, line programs, DIE trees", lambda code=code: debuginfo.read(code)),
            )
            for code in unpacked.objects
        ]
        stage(
            "index.build: merging, numbering, packing",
            lambda indexed=indexed: index.build(indexed, ModuleSummary("0" * 64, 0, "")),
        )
        stage("all of it, with digests and the summary", lambda: build_index(data, Limits()))
    return [f"{statistics.median(times) * 1e3:.0f} ms {name}" for name, times in seconds.items()]


@gc_paused()
def whole_index(path: Path) -> str:
    """Seconds and size for one more workload."""
    data = path.read_bytes()
    begun = time.perf_counter()
    built = build_index(data, Limits())
    seconds = time.perf_counter() - begun
    objects = len(index.Index(built).objects)
    return f"{path.name}: {len(data):,} bytes, {objects:,} code objects, indexed in {seconds:.2f} s, index {len(built):,} bytes"
