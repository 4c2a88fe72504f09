"""A profiler's question: a million sampled offsets of one kernel; which source lines are hot? Samples travel as one
column, answers come back as columns, and nothing in between is a Python object per sample.

    python samples/clients/bulk_profile.py samples/kernels/bin/raycast/dg2-opt.dbg raycast
"""

from __future__ import annotations

import argparse
import signal
from pathlib import Path

import numpy as np

from symd import Client
from symd.model.answers import Answers, Frame


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
    return f"{frame.function} {Path(frame.file).name}:{frame.line}" if frame.file else f"{frame.function} (no line)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("module", type=Path)
    parser.add_argument("kernel")
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--server", help="the daemon's address")
    arguments = parser.parse_args()
    with Client(arguments.server) as symd:
        module = symd.add(arguments.module.read_bytes(), arguments.module.name)
        sizes = {kernel.name: kernel.size for each in module.objects for kernel in each.kernels}
        if arguments.kernel not in sizes:
            parser.error(f"there is no kernel {arguments.kernel!r}: there are {', '.join(sizes) or 'none'}")
        size = sizes[arguments.kernel]
        dice = np.random.default_rng(1)
        offsets = (dice.beta(2, 5, arguments.samples) * (size // 8)).astype(np.uint64) * np.uint64(8)
        answers = symd.symbolize_column(module.sha256, offsets, kernel=arguments.kernel)
    for weight, name in hottest(answers, 10):
        print(f"{weight / arguments.samples:7.2%}  {name}")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # who reads no further, as head, ends this without a traceback
    main()
