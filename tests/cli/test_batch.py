"""symd batch."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from symd.engine.engine import Engine
from symd.store import Store
from tests.cli.conftest import ROOT, SYMD, Run, drawn_on, pseudo_terminal

MODULE = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"pc": [0x1978, 0x1978, 0x10, None], "weight": [5, 1, 1, 1]}), path)
    return path


def test_samples_get_their_frames_and_the_report_goes_to_stderr(run: Run, samples: Path) -> None:
    out = samples.with_name("out.parquet")
    outcome = run("batch", "-m", MODULE, "--column", "address=pc", samples, out)
    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err == "symd: 4 samples (weight 8) at 2 locations: 2 EXACT, 1 OUTSIDE_TEXT, 1 names no place\n"
    rows = pq.read_table(out).to_pylist()
    assert [row["reason"] for row in rows] == ["EXACT", "EXACT", "OUTSIDE_TEXT", None]
    assert [(frame["function"], frame["line"]) for frame in rows[0]["frames"]] == [("blend", 13), ("shade", 23)]
    assert sorted(path.name for path in samples.parent.iterdir()) == ["in.parquet", "out.parquet"]


@pytest.mark.parametrize(("name", "kind"), [("samples", pa.int64()), ("Count", pa.float64())])
def test_a_column_of_counts_that_is_not_called_weight_is_named(
    run: Run, tmp_path: Path, name: str, kind: pa.DataType
) -> None:
    source, call = tmp_path / "in.parquet", ("batch", "-m", MODULE)
    pq.write_table(pa.table({"address": [0x1978, 0x1978], name: pa.array([12_000, 8_000], kind)}), source)
    said = run(*call, source, tmp_path / "out.parquet").err
    advice = f"--column weight={name}"
    assert said == (
        "symd: 2 samples at 1 location: 2 EXACT\n"
        f"symd: there is no column weight, so each row counts as 1; {advice} counts that column\n"
    )
    said = run(*call, *advice.split(), source, tmp_path / "out.parquet").err
    assert said in (
        "symd: 2 samples (weight 20,000) at 1 location: 2 EXACT\n",
        "symd: 2 samples (weight 20,000.0) at 1 location: 2 EXACT\n",
    )
    counted = run(*call, *advice.split(), "--json", source, tmp_path / "out.parquet").json
    assert counted[0]["weight"] == 20_000


def test_a_column_of_texts_is_no_column_of_counts(run: Run, tmp_path: Path) -> None:
    pq.write_table(pa.table({"address": [0x1978], "value": ["Active"]}), tmp_path / "in.parquet")
    said = run("batch", "-m", MODULE, tmp_path / "in.parquet", tmp_path / "out.parquet").err
    assert said == "symd: 1 sample at 1 location: 1 EXACT\n"


@pytest.mark.parametrize("name", ["out.csv", "OUT.CSV", "out.json", "out.csv.gz"])
def test_a_file_named_after_another_format_is_not_written(run: Run, samples: Path, name: str) -> None:
    kept = samples.with_name(name)
    kept.write_text("kept")
    outcome = run("batch", "-m", MODULE, "--column", "address=pc", samples, kept)
    assert (outcome.code, kept.read_text()) == (2, "kept")
    assert f"write {kept.with_suffix('.parquet')}" in outcome.err


def test_what_is_no_parquet_file_is_said_before_what_is_not_installed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("symd.profiles.sample_tables.sample_files.find_spec", lambda _name: None)
    (tmp_path / "in.csv").write_text("address\n6520\n")
    outcome = run("batch", "-m", MODULE, tmp_path / "in.csv", tmp_path / "out.parquet")
    assert (outcome.code, "not a Parquet file" in outcome.err) == (2, True)
    pq.write_table(pa.table({"address": [0x1978]}), tmp_path / "in.parquet")
    outcome = run("batch", "-m", MODULE, tmp_path / "in.parquet", tmp_path / "out.parquet")
    assert "pyarrow is not installed here" in outcome.err


def test_one_sample_is_not_several(run: Run, tmp_path: Path) -> None:
    pq.write_table(pa.table({"pc": [0x1978]}), tmp_path / "in.parquet")
    outcome = run("batch", "-m", MODULE, "--column", "address=pc", tmp_path / "in.parquet", tmp_path / "out.parquet")
    assert outcome.err == "symd: 1 sample at 1 location: 1 EXACT\n"


@pytest.mark.parametrize("columns", [{"address": [8]}, {"kernel": ["shade"], "offset": [8]}])
def test_samples_without_a_module_are_told_how_to_name_it(
    run: Run, tmp_path: Path, columns: dict[str, list[object]]
) -> None:
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    call = ("batch", tmp_path / "in.parquet", tmp_path / "out.parquet")
    outcome = run(*call)
    assert (outcome.code, outcome.err.count("symd: -m FILE names the module that the samples are of")) == (1, 1)
    assert "-m FILE" not in run(*call, "--json").err
    assert "-m FILE" not in run(*call, "-m", MODULE).err


def test_samples_that_do_not_say_which_module_they_mean_are_told_how(run: Run, tmp_path: Path) -> None:
    source, out, store = tmp_path / "in.parquet", tmp_path / "out.parquet", tmp_path / "store"
    Store(store).close()
    pq.write_table(pa.table({"address": [8]}), source)
    outcome = run("batch", "--store", store, source, out)
    assert (outcome.code, "symd: a column `module` says" in outcome.err) == (1, True)
    second = ROOT / "samples" / "amdgpu" / "bin" / "v5-gfx1100.co"
    outcome = run("batch", "-m", MODULE, "-m", second, source, out)
    assert outcome.err.splitlines()[1:] == [
        "symd: several modules were given, and the samples do not say which is meant"
    ]
    pq.write_table(pa.table({"module": ["two"], "address": [8]}), source)
    outcome = run("batch", "-m", f"two={MODULE}", "-m", f"two={second}", source, out)
    assert outcome.err.splitlines()[1:] == ["symd: several modules are called two"]
    pq.write_table(pa.table({"module": ["modules/672ea2ef"], "address": [8]}), source)
    assert "a SHA-256 is written with all of its 64 digits" in run("batch", "-m", MODULE, source, out).err


def test_contexts_that_nobody_was_told_of_are_told_who_could_be(run: Run, tmp_path: Path) -> None:
    source, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    pq.write_table(pa.table({"context": ["0" * 32], "device_address": [8]}), source)
    outcome = run("batch", "-m", MODULE, source, out)
    assert (outcome.code, outcome.err.splitlines()[-1].startswith("symd: --server ADDRESS or --store")) == (1, True)
    pq.write_table(pa.table({"context": ["3f2a"], "device_address": [8]}), source)
    assert "symd: contexts/3f2a: a context's id is 32 hexadecimal digits" in run("batch", "-m", MODULE, source, out).err


def test_a_store_that_is_named_counts_before_a_daemon_of_the_environment(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Engine(Store(tmp_path / "store")) as engine:
        engine.add(MODULE.read_bytes(), "shade")
    pq.write_table(pa.table({"module": ["shade"], "address": [0x1978]}), tmp_path / "in.parquet")
    monkeypatch.setenv("SYMD_SERVER", "unix:/nowhere")
    outcome = run("batch", "--store", tmp_path / "store", tmp_path / "in.parquet", tmp_path / "out.parquet")
    assert (outcome.code, "1 EXACT" in outcome.err) == (0, True), outcome.err


def test_no_store_is_made_to_be_asked(run: Run, samples: Path, tmp_path: Path) -> None:
    for name, content in (("empty", []), ("another", ["file"])):
        folder = tmp_path / name
        folder.mkdir()
        for each in content:
            (folder / each).touch()
        outcome = run("batch", "--column", "address=pc", "--store", folder, samples, tmp_path / "out.parquet")
        assert (outcome.code, "there is no store" in outcome.err) == (2, True), outcome.err
        assert sorted(path.name for path in folder.iterdir()) == content


def test_locations_stand_in_a_file_beside(run: Run, samples: Path) -> None:
    call = ("batch", "-m", MODULE, "--column", "address=pc", "--out-form", "locations", samples)
    out = samples.with_name("out.parquet")
    assert run(*call, out).code == 0
    named = samples.with_name("named")
    assert run(*call, out, "--locations", named).code == 0
    beside = samples.with_name("out.locations.parquet")
    assert beside.read_bytes() == named.read_bytes()
    numbers = pq.read_table(out)["location"].to_pylist()
    assert set(numbers) <= set(pq.read_table(beside)["location"].to_pylist())
    refused = run(*call, out, "--locations", out)
    assert (refused.code, "two files" in refused.err) == (2, True)


def test_hot_lines_begin_with_the_hottest(run: Run, samples: Path) -> None:
    out = samples.with_name("out.parquet")
    outcome = run("batch", "-m", MODULE, "--column", "address=pc", "--out-form", "hot-lines", "--json", samples, out)
    (report,) = outcome.json
    assert report["reasons"] == {"EXACT": 2, "OUTSIDE_TEXT": 1}
    first, *_ = pq.read_table(out).to_pylist()
    assert (first["function"], first["line"], first["samples"], first["weight"]) == ("blend", 13, 2, 6)


def test_in_and_out_may_be_one_file_which_keeps_its_mode(run: Run, samples: Path) -> None:
    samples.chmod(0o640)
    assert run("batch", "-m", MODULE, "--column", "address=pc", samples, samples).code == 0
    assert "frames" in pq.read_schema(samples).names
    assert samples.stat().st_mode & 0o777 == 0o640
    again = run("batch", "-m", MODULE, "--column", "address=pc", samples, samples)
    assert (again.code, "already" in again.err, "--prefix" in again.err) == (2, True, True)
    assert run("batch", "-m", MODULE, "--column", "address=pc", "--prefix", "b_", samples, samples).code == 0


@pytest.mark.parametrize("data", [b"", b"no parquet", b"PAR1PAR1"])
def test_damaged_input_leaves_what_was_there(run: Run, samples: Path, data: bytes) -> None:
    out = samples.with_name("out.parquet")
    out.write_bytes(b"what was there")
    samples.write_bytes(data)
    outcome = run("batch", "-m", MODULE, samples, out)
    assert outcome.code == 2
    assert outcome.err.startswith(f"symd: {samples}: ")
    assert out.read_bytes() == b"what was there"
    assert len(list(samples.parent.iterdir())) == 2


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"address,weight\n6520,1\n", "not a Parquet file (write the samples as Parquet"),
        (b"PAR1" + bytes(100), "(what wrote the file may have been interrupted)"),
        (None, "this is a folder (give each of its Parquet files by itself"),
    ],
)
def test_what_stands_in_the_place_of_samples_is_named(run: Run, tmp_path: Path, data: bytes | None, said: str) -> None:
    source = tmp_path / "samples"
    if data is None:
        source.mkdir()
    else:
        source.write_bytes(data)
    outcome = run("batch", "-m", MODULE, source, tmp_path / "out.parquet")
    assert (outcome.code, said in outcome.err) == (2, True), outcome.err


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("s3://bucket/x.parquet", "samples are files of this machine"),
        ("s3:/bucket/x.parquet", "no such file or directory"),
        ("-", "IN and OUT must be files"),
    ],
)
def test_samples_are_files_of_this_machine(run: Run, samples: Path, name: str, said: str) -> None:
    out = samples.with_name("out.parquet")
    outcome = run("batch", "-m", MODULE, "--column", "address=pc", name, out)
    assert (outcome.code, said in outcome.err) == (2, True), outcome.err
    if name != "s3:/bucket/x.parquet":
        assert said in run("batch", "-m", MODULE, "--column", "address=pc", samples, name).err
    assert sorted(path.name for path in samples.parent.iterdir()) == ["in.parquet"]


def test_a_pipe_is_refused_before_anybody_waits_for_it(run: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    outcome = run("batch", "-m", MODULE, tmp_path / "pipe", tmp_path / "out.parquet")
    assert (outcome.code, "this is not a regular file (Parquet is read from its end" in outcome.err) == (2, True)


def test_a_field_inside_of_a_column_is_no_column(run: Run, tmp_path: Path) -> None:
    pq.write_table(pa.table({"sample": [{"pc": 8}]}), tmp_path / "in.parquet")
    call = ("batch", "-m", MODULE, "--column", "address=sample.pc", tmp_path / "in.parquet", tmp_path / "out.parquet")
    assert "a field inside of a column is made a column first" in run(*call).err


def test_samples_that_name_no_place_have_no_line_either(run: Run, tmp_path: Path) -> None:
    pq.write_table(pa.table({"address": pa.nulls(2)}), tmp_path / "in.parquet")
    outcome = run("batch", "-m", MODULE, tmp_path / "in.parquet", tmp_path / "out.parquet")
    assert (outcome.code, outcome.err) == (1, "symd: 2 samples at 0 locations, 2 name no place\n")


def test_damage_in_the_midst_leaves_what_was_there(run: Run, tmp_path: Path) -> None:
    source, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    pq.write_table(pa.table({"address": list(range(20000))}), source, row_group_size=5000, compression="zstd")
    data = bytearray(source.read_bytes())
    at = pq.ParquetFile(source).metadata.row_group(2).column(0).dictionary_page_offset
    data[at : at + 200] = bytes(200)
    source.write_bytes(data)
    out.write_bytes(b"what was there")
    outcome = run("batch", "-m", MODULE, source, out)
    assert (outcome.code, "cannot be read as Parquet" in outcome.err) == (2, True)
    assert out.read_bytes() == b"what was there"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.parquet", "out.parquet"]


def test_where_nothing_can_be_written_that_is_said(run: Run, samples: Path) -> None:
    outcome = run("batch", "-m", MODULE, "--column", "address=pc", samples, samples.parent / "no" / "out.parquet")
    assert (outcome.code, "cannot write the file" in outcome.err, "make its folder" in outcome.err) == (3, True, True)
    outcome = run("batch", "-m", MODULE, "--column", "address=pc", samples, samples.parent)
    assert (outcome.code, "not a regular file" in outcome.err) == (2, True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--server", "unix:/nowhere", "--store", "x"), "cannot be used together"),
        (("--store", "s3://bucket/x"), "catalogue is not given"),
        (("--store", "x", "--catalogue", "postgresql://host/x"), "goes with a store in an object storage"),
        (("--store", "ftp://host/x", "--catalogue", "mysql://host/x"), "not the URL of a catalogue"),
        (("--locations", "x"), "--out-form locations"),
        (("--column", "pc"), "NAME=THEIRS"),
        (("--column", "adress=pc"), "'adress' is not the name"),
        (("--store", "/nowhere/at/all"), "no such store"),
        (("-m", "="), "ID=FILE"),
    ],
)
def test_what_cannot_be_meant_is_said(run: Run, samples: Path, options: tuple[str, ...], said: str) -> None:
    outcome = run("batch", *options, samples, samples.with_name("out"))
    assert (outcome.code, said in outcome.err) == (2, True), outcome.err


def test_the_exit_code_is_1_where_nothing_has_a_line(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "in.parquet"
    pq.write_table(pa.table({"module": ["unknown"] * 2, "address": [1, 2]}), source)
    outcome = run("batch", "-m", MODULE, source, tmp_path / "out.parquet")
    assert outcome.code == 1
    assert outcome.err.splitlines()[1:] == ["symd: no module is called unknown"]
    assert pq.read_table(tmp_path / "out.parquet")["reason"].to_pylist() == ["UNKNOWN_MODULE"] * 2


def test_a_store_is_asked_without_its_daemon(run: Run, samples: Path, tmp_path: Path) -> None:
    with Engine(Store(tmp_path / "store")) as engine:
        digest = engine.add(MODULE.read_bytes(), "shade.co").sha256
    pq.write_table(pa.table({"module": ["shade.co", digest], "address": [0x1978] * 2}), samples)
    outcome = run("batch", "--store", tmp_path / "store", samples, samples)
    assert (outcome.code, "2 EXACT" in outcome.err) == (0, True)


def test_a_bar_is_shown_to_whoever_looks_at_a_terminal(samples: Path) -> None:
    master, slave = pseudo_terminal()
    command = [*SYMD, "batch", "-m", str(MODULE), "--column", "address=pc", str(samples), str(samples) + ".out"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    done = subprocess.run(command, stderr=slave, timeout=120, check=False, env=environment)
    os.close(slave)
    assert done.returncode == 0
    assert b"symd: opening modules, 0%" in drawn_on(master)


def test_asking_a_store_removes_nothing_for_want_of_room(run: Run, tmp_path: Path) -> None:
    """How much a store may hold is for its daemons to say."""
    store, samples = tmp_path / "store", tmp_path / "in.parquet"
    pq.write_table(pa.table({"module": ["shade"], "address": [0x1978]}), samples)
    with Store(store) as kept:
        kept.put(b"used last long ago")
        asked = kept.put(MODULE.read_bytes(), "shade")
    size = MODULE.stat().st_size
    limits = ("--limit", f"module_size={size}", "--limit", f"store_size={size + 100}")
    out = tmp_path / "out.parquet"
    assert run("batch", "--store", store, *limits, samples, out).code == 0
    assert pq.read_table(out)["in_module"][0].as_py() == asked
    with Store(store) as kept:
        assert (len(kept.records()), kept.figures().index_bytes > 0) == (2, True)
