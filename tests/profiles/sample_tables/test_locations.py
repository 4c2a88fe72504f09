"""The number of a location follows from what it says, wherever it is asked."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa

from symd.engine.engine import Engine
from symd.model.answers import Locations, concat
from symd.profiles.sample_tables.location_registry import LocationRegistry
from symd.profiles.sample_tables.sample_files import SampleForm
from symd.profiles.sample_tables.tables import SampleTables
from tests.profiles.sample_tables.conftest import AMD

SPAN = range(0x1800, 0x2000, 4)


def test_a_small_batch_gives_the_numbers_of_a_large_one(engine: Engine, amd: str) -> None:
    large = SampleTables(engine).answered(
        pa.table({"module": [amd] * 512, "address": list(SPAN)}), SampleForm.LOCATIONS
    )
    tables = SampleTables(engine)
    one_by_one = [
        tables.answered(pa.table({"module": [amd], "address": [at]}), SampleForm.LOCATIONS)["location"][0].as_py()
        for at in SPAN
    ]
    assert engine.symbolize_column(amd, [SPAN[0]]).locations.shared is False
    assert large["location"].to_pylist() == one_by_one


def test_another_process_gives_the_same_numbers(engine: Engine, amd: str) -> None:
    program = (
        "import sys, pyarrow as pa, symd\n"
        "batch = symd.BatchSymbolizer(sys.argv[1], form='locations')\n"
        "print(batch(pa.table({'address': list(range(0x1800, 0x2000, 4))}))['location'].to_pylist())"
    )
    command = [sys.executable, "-W", "ignore", "-c", program, str(AMD)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    here = SampleTables(engine).answered(pa.table({"module": [amd] * 512, "address": list(SPAN)}), SampleForm.LOCATIONS)
    assert done.stdout.strip() == str(here["location"].to_pylist())


PLAIN = {
    "reason": 1, "kernel": 1, "function": 1, "linkage_name": 1, "file": 1, "line": 5, "column": 2, "inlined": 0, "parent": 0,
}  # fmt: skip
"""Location 2 of a table whose location 1 says the same of another file."""


def number_of(module: str, **changed: int) -> int:
    columns = [np.array([0, PLAIN[name], changed.get(name, PLAIN[name])], np.uint32) for name in PLAIN]
    columns[4][1] = 2
    registry = LocationRegistry()
    table = Locations(*columns, strings=["", "f", "g"])
    registry._entries(table, np.array([2], np.uint32), [module], np.zeros(1, np.int64))
    return int(registry.columns().entries.location[1])


def test_what_differs_in_anything_is_another_location(amd: str, zebin: str) -> None:
    others = [number_of(amd, **{name: value + 1}) for name, value in PLAIN.items()]
    swapped = [number_of(amd, line=2, column=5), number_of(amd, function=2, file=1), number_of(amd, function=1, file=2)]
    every = [number_of(amd), number_of(zebin), *others, *swapped]
    assert len(set(every)) == len(every) - 2  # function=2 and file=2 alone are among the others
    assert number_of(amd) == number_of(amd)
    assert min(every) > 0


def test_a_location_that_stands_twice_in_a_table_is_one(engine: Engine, amd: str) -> None:
    registry = LocationRegistry()
    answers = engine.symbolize_column(amd, [0x1978, 0x1980])
    twice, (_, second) = concat([answers.locations, answers.locations])
    numbers = np.concatenate([answers.location, answers.location + np.uint32(second)])
    entries = registry._entries(twice, numbers, [amd], np.zeros(4, np.int64)).tolist()
    assert entries[:2] == entries[2:]
    assert registry.of_answers(amd, answers).tolist() == entries[:2]
