"""From file to file: every row, in order, bounded, and a damaged file is a named error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from symd.engine.engine import Engine
from symd.errors import InvalidInput, Malformed, SymdError
from symd.profiles.sample_tables import parquet_files
from symd.profiles.sample_tables.parquet_files import SampleFile, write_answers
from symd.profiles.sample_tables.sample_files import SampleForm, TableNames
from symd.profiles.sample_tables.tables import SampleTables


def samples(amd: str, rows: int = 5000) -> pa.Table:
    random = np.random.default_rng(3)
    return pa.table(
        {
            "module": pa.array([amd, None, "other"], pa.string()).take(pa.array(random.choice(3, rows, p=[0.9, 0.05, 0.05]))),
            "address": pa.array(random.integers(0x1780, 0x2000, rows), mask=random.random(rows) < 0.01),
            "weight": random.integers(0, 9, rows),
            "note": pa.array(["a", None]).take(pa.array(random.integers(0, 2, rows))),
            "spent": pa.array(random.integers(0, 9, rows), pa.duration("us")),
        }
    )  # fmt: skip


def written(
    table: pa.Table, tables: SampleTables, form: SampleForm, folder: Path, **options: object
) -> tuple[Path, Path]:
    source, target, locations = (folder / name for name in ("in.parquet", "out.parquet", "locations.parquet"))
    pq.write_table(table, source, **options)
    with SampleFile(source, tables.names) as file:
        write_answers(
            file, tables, form, target, locations if form is SampleForm.LOCATIONS else None, lambda _done, _rows: None
        )
    return target, locations


@pytest.mark.parametrize("at_a_time", [700, 1 << 19])
def test_every_form_says_what_tables_say(
    engine: Engine, amd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_a_time: int
) -> None:
    monkeypatch.setattr(parquet_files, "ROWS_AT_A_TIME", at_a_time)
    table = samples(amd)
    wanted = SampleTables(engine).answered(table, SampleForm.SAMPLES)
    target, _ = written(table, SampleTables(engine), SampleForm.SAMPLES, tmp_path, row_group_size=900)
    found = pq.read_table(target)
    assert found.schema.equals(wanted.schema)
    assert found.equals(wanted)
    target, locations = written(table, SampleTables(engine), SampleForm.LOCATIONS, tmp_path)
    assert pq.read_table(target).column_names == [*table.column_names, "location"]
    joined = pq.read_table(target).to_pylist()
    described = {row.pop("location"): row for row in pq.read_table(locations).to_pylist()}
    assert [{**described[row.pop("location")], **row} for row in joined] == wanted.to_pylist()
    target, _ = written(table, SampleTables(engine), SampleForm.HOT_LINES, tmp_path)
    order = [(name, "ascending") for name in ("function", "file", "line", "reason")]
    hot = SampleTables(engine).answered(table, SampleForm.HOT_LINES)
    assert pq.read_table(target).sort_by(order).equals(hot.sort_by(order))


def test_progress_counts_rows(tables: SampleTables, amd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_files, "ROWS_AT_A_TIME", 2000)
    pq.write_table(samples(amd), tmp_path / "in.parquet")
    told: list[tuple[int, int]] = []
    with SampleFile(tmp_path / "in.parquet", tables.names) as file:
        write_answers(
            file, tables, SampleForm.SAMPLES, tmp_path / "out", None, lambda done, rows: told.append((done, rows))
        )
    assert told == [(0, 5000), (2000, 5000), (4000, 5000), (5000, 5000)]


@pytest.mark.parametrize("form", list(SampleForm))
def test_a_file_without_rows_gives_one_without_rows(
    tables: SampleTables, amd: str, tmp_path: Path, form: SampleForm
) -> None:
    target, _ = written(samples(amd).slice(0, 0), tables, form, tmp_path)
    found = pq.read_table(target)
    assert found.num_rows == 0
    assert found.schema.equals(tables.schema(samples(amd).schema, form))


def test_only_the_columns_that_hot_lines_need_are_read(tables: SampleTables, amd: str, tmp_path: Path) -> None:
    pq.write_table(samples(amd), tmp_path / "in.parquet")
    with SampleFile(tmp_path / "in.parquet", tables.names) as file:
        names = [table.column_names for table in file.tables(places_only=True)]
    assert names == [["module", "address", "weight"]]


@pytest.mark.parametrize("row_group", [1 << 16, 1 << 22], ids=["many row groups", "one row group"])
def test_memory_does_not_grow_with_the_file(
    tables: SampleTables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row_group: int
) -> None:
    monkeypatch.setattr(parquet_files, "ROWS_AT_A_TIME", 1 << 15)
    path = tmp_path / "in.parquet"
    numbers = np.random.default_rng(1).integers(0, 1 << 62, 1 << 22)
    pq.write_table(
        pa.table({"address": numbers}), path, row_group_size=row_group, compression="none", use_dictionary=False
    )
    before, held = pa.total_allocated_bytes(), 0
    with SampleFile(path, tables.names) as file:
        for _ in file.tables(places_only=False):
            held = max(held, pa.total_allocated_bytes() - before)
    assert path.stat().st_size > 1 << 25
    assert held < 1 << 23


def test_metadata_of_the_file_stays(tables: SampleTables, amd: str, tmp_path: Path) -> None:
    table = samples(amd).replace_schema_metadata({"host": "here"})
    target, _ = written(table, tables, SampleForm.SAMPLES, tmp_path)
    assert pq.read_schema(target).metadata[b"host"] == b"here"


NOT_PARQUET = {
    "nothing": b"",
    "text": b"module,address\nx,1\n",
    "the magic number alone": b"PAR1PAR1",
    "a footer of no bytes": b"PAR1" + bytes(8) + b"PAR1",
    "a footer that is too long": b"PAR1" + b"\xff\xff\xff\x7fPAR1",
}


@pytest.mark.parametrize("data", NOT_PARQUET.values(), ids=NOT_PARQUET)
def test_what_is_no_parquet_file_is_malformed(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "in.parquet"
    path.write_bytes(data)
    with pytest.raises(Malformed) as caught:
        SampleFile(path, TableNames())
    assert caught.value.where == str(path)


@pytest.mark.parametrize(
    "kind",
    [pa.list_(pa.string()), pa.struct([("a", pa.string())]), pa.map_(pa.string(), pa.int64()), pa.binary()],
    ids=str,
)
@pytest.mark.parametrize("name", ["module", "weight"])
def test_columns_of_other_types_are_refused_by_name(tmp_path: Path, name: str, kind: pa.DataType) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"address": [1], name: pa.nulls(1, kind)}), path)
    with pytest.raises(InvalidInput, match="the column holds") as caught:
        SampleFile(path, TableNames())
    assert caught.value.where == name


def test_a_file_that_is_not_there_or_is_a_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no such file"):
        SampleFile(tmp_path / "nowhere", TableNames())
    with pytest.raises(InvalidInput):
        SampleFile(tmp_path, TableNames())


def test_damaged_bytes_end_in_a_named_error_or_in_an_answer(engine: Engine, amd: str, tmp_path: Path) -> None:
    """Everywhere in the file: bytes changed, the end cut off."""
    path = tmp_path / "in.parquet"
    pq.write_table(samples(amd, 300), path, compression="none")
    whole = path.read_bytes()
    random, codes = np.random.default_rng(1), []
    for number in range(250):
        data = bytearray(whole)
        if number % 5 == 0:
            del data[random.integers(len(data)) :]
        else:
            data[random.integers(len(data))] ^= 1 << random.integers(8)
        path.write_bytes(data)
        tables = SampleTables(engine)
        try:
            with SampleFile(path, tables.names) as file:
                write_answers(file, tables, SampleForm.SAMPLES, tmp_path / "out", None, lambda _done, _rows: None)
        except SymdError as error:
            codes.append(error.exit_code)
    assert set(codes) == {2}
    assert len(codes) > 50


def test_wide_rows_are_read_few_at_a_time_and_narrow_ones_together(
    tables: SampleTables, amd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """300 texts of 10 kB after 5,000 of a byte, with 1 MiB at a time: all at once they were 3 MB."""
    monkeypatch.setattr(parquet_files, "BYTES_AT_A_TIME", 1 << 20)
    notes = ["a"] * 5000 + [f"{number:05}" * 2000 for number in range(300)]
    table = pa.table({"address": pa.array([0x1978] * len(notes), pa.uint64()), "note": notes})
    with pq.ParquetWriter(tmp_path / "in.parquet", table.schema) as file:
        for start in (0, 1000, 2000, 3000, 4000):
            file.write_table(table.slice(start, 1000))
        file.write_table(table.slice(5000))
    with SampleFile(tmp_path / "in.parquet", tables.names) as samples:
        read = list(samples.tables(places_only=False))
    assert pa.concat_tables(read).equals(table)
    assert [each.num_rows for each in read] == [5000, *[64] * 4, 44]
