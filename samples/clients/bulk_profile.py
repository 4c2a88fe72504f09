"""A profiler's question: a million sampled offsets in all kernels of some modules; which source lines are hot? Samples
travel as one column, beside it the number of each one's kernel, or as device addresses; answers come back as columns, and
nothing in between is a Python object per sample.

    python samples/clients/bulk_profile.py samples/kernels/bin/raycast/dg2-opt.dbg samples/kernels/bin/tonemap/dg2-opt.dbg
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from symd import Client
from symd.model.addresses import ByKernel, DeviceAddress, KernelOffset
from symd.model.answers import Answers, Frame
from symd.model.contexts import Context, Load, Origin, Segment


def hottest(answers: Answers, count: int) -> list[tuple[int, str]]:
    """(samples, "function file:line") of the innermost frames, hottest first."""
    numbers, weights = np.unique(answers.location, return_counts=True)
    totals: dict[str, int] = {}
    for number, weight in zip(numbers.tolist(), weights.tolist(), strict=True):
        frames = answers.locations.frames(number)
        name = described(frames[0]) if frames and frames[0].function else "(no frame)"
        totals[name] = totals.get(name, 0) + weight
    return sorted(((weight, name) for name, weight in totals.items()), key=lambda row: (-row[0], row[1]))[:count]


def described(frame: Frame) -> str:
    where = f"{Path(frame.file).name}:{frame.line}" if frame.file and frame.line else "(no line)"
    return f"{frame.function} {where}"


def loaded(symd: Client, kernels: Sequence[tuple[Origin, int]], bases: Sequence[int]) -> Origin:
    """What device addresses count from: a context that has each kernel at an address of its own. A profiler tells the
    loads that its driver reports."""
    context = symd.contexts.add(Context("bulk_profile", os.getpid(), attributes={"start": str(time.time_ns())}))
    loads = [
        Load(
            each.module,
            1,
            (Segment(DeviceAddress(base), size, ByKernel(each.kernel or "", KernelOffset(0)), each.path),),
        )
        for (each, size), base in zip(kernels, bases, strict=True)
    ]
    symd.contexts.record(context, loads)
    return Origin(context=context)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", type=Path, nargs="+", metavar="MODULE")
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--device-addresses", action="store_true", help="ask where the samples are in device memory")
    parser.add_argument("--server", help="the daemon's address")
    arguments = parser.parse_args()
    dice = np.random.default_rng(1)
    with Client(arguments.server) as symd:
        modules = [symd.add(file.read_bytes(), file.name) for file in arguments.modules]
        kernels = [
            (Origin(module.sha256, each.path, kernel.name), kernel.size)
            for module in modules
            for each in module.objects
            for kernel in each.kernels
            if kernel.size
        ]
        if not kernels:
            parser.error("there is no kernel in these modules")
        number = dice.integers(0, len(kernels), arguments.samples)
        words = np.array([size // 8 for _, size in kernels])[number]
        offsets = (dice.beta(2, 5, arguments.samples) * words).astype(np.uint64) * np.uint64(8)
        origins = [origin for origin, _ in kernels]
        if arguments.device_addresses:
            bases = np.uint64(1 << 32) + np.cumsum([0, *(size for _, size in kernels[:-1])], dtype=np.uint64)
            offsets, origins, number = bases[number] + offsets, [loaded(symd, kernels, bases.tolist())], None
        found = symd.symbolize_origins(offsets, origins, number)
    for weight, name in hottest(found.answers, 10):
        print(f"{weight / arguments.samples:7.2%}  {name}")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # who reads no further, as head, ends this without a traceback
    main()
