"""symd.BatchSymbolizer: pickled, in threads, over record batches that come one after another, and inside engines.

Of batches that are answered together each is measured once, however many wait.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import symd
from symd import batch
from symd import batch as batches
from symd.errors import InvalidInput, ToolMissing
from tests.cli.conftest import ROOT
from tests.cli.conftest import server as server  # noqa: PLC0414 - a fixture, shared
from tests.tools import require

MODULE = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
SAMPLES = pa.table({"address": list(range(0x1800, 0x2000, 4)), "row": list(range(512))})


def test_it_answers_as_a_module_does() -> None:
    with symd.open(MODULE) as module, symd.BatchSymbolizer(MODULE) as batch:
        wanted = module.symbolize(np.arange(0x1800, 0x2000, 4))
        found = batch(SAMPLES)
    assert found["reason"].to_pylist() == [each.reason.name for each in wanted]
    lines = [[(frame["function"], frame["line"] or 0) for frame in frames] for frames in found["frames"].to_pylist()]
    assert lines == [[(frame.function, frame.line) for frame in each.frames] for each in wanted]


def test_it_can_be_pickled_and_opens_its_modules_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(MODULE.parent)
    batch = symd.BatchSymbolizer(f"shade={MODULE.name}", form="locations", columns={"address": "pc"}, prefix="g_")
    samples = pa.table({"pc": [0x1978], "module": ["shade"]})
    before = batch(samples)
    data = pickle.dumps(batch)
    monkeypatch.chdir(tmp_path)
    again = pickle.loads(data)  # noqa: S301 - our own
    assert again(samples).equals(before)
    assert before.column_names == ["pc", "module", "g_location"]


def test_several_threads_get_the_same_answers() -> None:
    with symd.BatchSymbolizer(MODULE) as batch, ThreadPoolExecutor(4) as threads:
        first, *others = threads.map(lambda _: batch(SAMPLES), range(8))
        assert all(each.equals(first) for each in others)
        assert batch.report().samples == 8 * 512


@pytest.mark.parametrize("together", [1, 100, 1 << 18])
@pytest.mark.parametrize("form", ["samples", "locations"])
def test_record_batches_that_come_one_after_another(monkeypatch: pytest.MonkeyPatch, together: int, form: str) -> None:
    """Spark's contract: an iterator of record batches in, one out; every batch has the schema that was declared, and rows keep their
    order. What comes may be empty, and is taken as it is wanted."""
    monkeypatch.setattr(batches, "ROWS_TOGETHER", together)
    batch = symd.BatchSymbolizer(MODULE, form=form)
    taken: list[int] = []

    def given() -> Iterator[pa.RecordBatch]:
        for number, part in enumerate([*SAMPLES.to_batches(max_chunksize=90), SAMPLES.to_batches()[0].slice(0, 0)]):
            taken.append(number)
            yield part

    found = batch.map_in_arrow(given())
    assert not taken
    first = next(found)
    assert len(taken) == {1: 1, 100: 2}.get(together, 7)
    parts = [first, *found]
    assert all(isinstance(part, pa.RecordBatch) for part in parts)
    declared = batch.output_schema(SAMPLES.schema)
    assert all(part.schema.equals(declared) for part in parts)
    assert not [field for field in declared if pa.types.is_dictionary(field.type) or "uint" in str(field.type)]
    assert pa.Table.from_batches(parts).equals(batch(SAMPLES).combine_chunks())
    assert list(batch.map_in_arrow(iter(()))) == []


def test_a_file_is_answered_as_the_command_does(tmp_path: Path) -> None:
    pq.write_table(SAMPLES, tmp_path / "in.parquet")
    told: list[tuple[int, int]] = []
    batch = symd.BatchSymbolizer(MODULE, form="locations")
    report = batch.write(tmp_path / "in.parquet", tmp_path / "out.parquet", progress=lambda *done: told.append(done))
    assert (report.samples, told[-1]) == (512, (512, 512))
    assert pq.read_table(tmp_path / "out.locations.parquet").equals(batch.locations())
    assert pq.read_table(tmp_path / "out.parquet").equals(batch(SAMPLES))


def test_a_daemon_gives_the_same_answers_and_numbers(server: str) -> None:
    there = symd.BatchSymbolizer(MODULE, server=server, form="locations")
    here = symd.BatchSymbolizer(MODULE, form="locations")
    assert there(SAMPLES).equals(here(SAMPLES))
    assert there.locations().sort_by("location").equals(here.locations().sort_by("location"))


def test_what_cannot_be_meant_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no form 'frames'"):
        symd.BatchSymbolizer(form="frames")
    with pytest.raises(InvalidInput, match=r"'pc' is not the name of a column that symd writes .write NAME=THEIRS"):
        symd.BatchSymbolizer(columns={"pc": "address"})
    with pytest.raises(InvalidInput, match="table of pyarrow"):
        symd.BatchSymbolizer(MODULE)([1])  # type: ignore[arg-type] # what is wrong
    with pytest.raises(InvalidInput, match="no such file"):
        symd.BatchSymbolizer(tmp_path / "missing.co")(SAMPLES)
    with pytest.raises(InvalidInput, match="not from both"):
        symd.BatchSymbolizer(store=tmp_path, server="unix:/nowhere")(SAMPLES)


def test_without_arrow_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("symd.profiles.sample_tables.sample_files.find_spec", lambda _: None)
    with pytest.raises(ToolMissing, match=r"pip install '.\[data\]'"):
        symd.BatchSymbolizer(MODULE)


def test_every_engine_has_the_frames_of_llvm_symbolizer() -> None:
    """The short form of `make bench-batch`: the command in each form, a join in DuckDB, two actors of Ray; it asserts."""
    require("llvm-symbolizer-14")
    command = [sys.executable, "-m", "benchmarks.batch", "--rows", "100000", "--module", str(MODULE)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert "duckdb: the same" in done.stdout
    assert "ray: the same" in done.stdout
    assert "llvm-symbolizer-14: all frames of" in done.stdout


class _Batch:
    """Of one row, and of as many bytes; counts who asks."""

    num_rows = 1

    def __init__(self, size: int) -> None:
        self._size = size
        self.asked = 0

    @property
    def nbytes(self) -> int:
        self.asked += 1
        return self._size


def test_each_batch_is_measured_once() -> None:
    several = [_Batch(8) for _ in range(100)]
    assert [len(each) for each in batch._together(several)] == [100]  # type: ignore[arg-type]
    assert {each.asked for each in several} == {1}


def test_rows_or_bytes_end_what_is_answered_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "ROWS_TOGETHER", 4)
    monkeypatch.setattr(batch, "BYTES_TOGETHER", 100)
    narrow, wide = (pa.record_batch({"a": pa.array([1] * count)}) for count in (2, 13))
    found = batch._together([narrow, narrow, narrow, wide, narrow])
    assert [[each.num_rows for each in some] for some in found] == [[2, 2], [2, 13], [2]]
    assert not list(batch._together([]))
