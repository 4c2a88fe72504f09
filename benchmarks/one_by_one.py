"""A Python program that looks at every frame of a million answers, one answer after the other.

`python -m benchmarks.one_by_one OBJECT` prints the row; OBJECT is a linked AMDGPU code object.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks import report
from benchmarks.answers import Text
from benchmarks.grpc_path import Row, timed
from symd.config import Limits
from symd.index import Index
from symd.index.module import build_index
from symd.model.answers import Answers
from symd.query.symbolize import symbolize_column

MANY = 1_000_000
HOT = 400
"""Addresses that samples of a profile come from."""


def rows(path: Path, rounds: int) -> Iterator[Row]:
    """Answers to random addresses of the whole text, and to as many of a few hundred."""
    index, text = Index(build_index(path.read_bytes(), Limits())), Text(path)
    anywhere = text.addresses(MANY, 31)
    hot = np.random.default_rng(32).choice(text.addresses(HOT, 33), MANY)
    for what, addresses in (("random addresses", anywhere), (f"samples of {HOT} addresses", hot)):
        answers = symbolize_column(index, addresses)
        frames = _looked_at(answers)
        rates = [MANY / timed(lambda: _looked_at(answers)) / 1e6 for _ in range(rounds)]  # noqa: B023 - called at once
        detail = f"{frames:,} frames, {len(answers.locations):,} locations; slowest {min(rates):.2f}"
        whole = f"all frames of a million answers in Python, one after the other, {what}: M answers/s"
        yield Row(whole, statistics.median(rates), 1, 3, True, detail)


def _looked_at(answers: Answers) -> int:
    """How many frames there are."""
    count = 0
    for answer in answers:
        for _ in answer.frames:
            count += 1
    return count


if __name__ == "__main__":
    report.main(__doc__, rows)
