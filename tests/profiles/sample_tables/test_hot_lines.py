"""Sums by source line are those of the samples added up one by one."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from symd.engine.engine import Engine
from symd.errors import LimitExceeded
from symd.profiles.sample_tables.sample_files import SampleForm
from symd.profiles.sample_tables.tables import SampleTables

SUMS = ("samples", "weight", "total_samples", "total_weight")


def added_up(rows: list[dict], weights: list) -> dict[tuple, list]:
    """(function, file, line, reason) to the four sums, with a loop over frames."""
    sums: dict[tuple, list] = defaultdict(lambda: [0, 0, 0, 0])
    for row, weight in zip(rows, weights, strict=True):
        lines = [
            (
                (frame["function"] or frame["linkage_name"], frame["file"], frame["line"], None)
                if frame["file"] and frame["line"]
                else (frame["function"] or frame["linkage_name"], None, None, row["reason"])
            )
            for frame in row["frames"]
        ] or [(None, None, None, row["reason"])]
        sums[lines[0]][0] += 1
        sums[lines[0]][1] += weight
        for line in set(lines):
            sums[line][2] += 1
            sums[line][3] += weight
    return dict(sums)


@pytest.mark.parametrize("kind", [None, pa.int32(), pa.float64()], ids=str)
def test_lines_have_the_sums_of_their_samples(tables: SampleTables, zebin: str, kind: pa.DataType | None) -> None:
    random = np.random.default_rng(11)
    count = 5000
    columns = {
        "address": pa.array(random.integers(0x1600, 0x2200, count), mask=random.random(count) < 0.01),
        "module": [("build-1", zebin, "unknown")[number] for number in random.choice(3, count, p=[0.8, 0.1, 0.1])],
    }
    weights = [1] * count
    if kind is not None:
        given = random.integers(-4, 100, count) / (1 if pa.types.is_integer(kind) else 8)
        columns["weight"] = pa.array(given, mask=random.random(count) < 0.01).cast(kind)
        weights = [Fraction(each or 0) for each in columns["weight"].to_pylist()]
    samples = pa.table(columns)
    wanted = added_up(tables.answered(samples, SampleForm.SAMPLES).to_pylist(), weights)
    hot = tables.answered(samples, SampleForm.HOT_LINES).to_pylist()
    found = {(row["function"], row["file"], row["line"], row["reason"]): [row[name] for name in SUMS] for row in hot}
    assert found == wanted
    assert len(hot) == len(found)
    assert [row["weight"] for row in hot] == sorted((row["weight"] for row in hot), reverse=True)


def test_several_tables_are_one_sum(engine: Engine, tables: SampleTables, amd: str) -> None:
    samples = pa.table({"module": [amd] * 0x800, "address": list(range(0x1800, 0x2000)), "weight": list(range(0x800))})
    whole = SampleTables(engine).answered(samples, SampleForm.HOT_LINES)
    for start in range(0, 0x800, 300):
        tables.count(samples.slice(start, 300))
    order = [(name, "ascending") for name in ("function", "file", "line", "reason")]
    assert tables.hot_lines().sort_by(order).equals(whole.sort_by(order))
    report = tables.report()
    assert (report.samples, report.placeless, sum(report.reasons.values())) == (0x800, 0, 0x800)


def test_weights_that_would_not_fit_are_refused(tables: SampleTables) -> None:
    tables.count(pa.table({"address": [1, 1], "weight": [1 << 60, 1 << 60]}))
    with pytest.raises(LimitExceeded, match="64 bits"):
        tables.count(pa.table({"address": [1] * 6, "weight": [1 << 60] * 6}))
