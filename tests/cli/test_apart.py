"""No verb writes over a file that it reads: that may be the only copy."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from symd.batch import BatchSymbolizer
from symd.cli.output import check_output_is_not_input
from symd.errors import InvalidInput
from tests.cli.conftest import ROOT, Run

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

SAMPLES = ROOT / "samples"
FILES = {
    "s.co": SAMPLES / "amdgpu" / "bin" / "v4-gfx900.co",
    "k.zebin": SAMPLES / "kernels" / "bin" / "filters" / "igc2-dg2-opt.zebin",
    "p.pb.gz": SAMPLES / "profiles" / "kernels.pb.gz",
    "k.cl": ROOT / "samples/kernels/vadd.cl",
}

CALLS = [
    "grab k.cl -o k.cl",
    "batch -m s.co --out-form hot-lines s.parquet s.parquet",
    "batch -m s.co s.parquet s.co",
    "batch -m ID=s.co s.parquet s.co",
    "batch -m s.co --out-form locations --locations s.parquet s.parquet o.parquet",
    "batch -m s.co --out-form locations --locations s.co s.parquet o.parquet",
    "batch -m s.co --out-form locations o.locations.parquet o.parquet",
    "profile -m k.zebin p.pb.gz k.zebin",
    "profile -m ID=k.zebin p.pb.gz k.zebin",
    "profile -m k.zebin p.pb.gz --to folded -o p.pb.gz",
    "view s.co -o s.co",
    "view k.zebin --profile p.pb.gz -o p.pb.gz",
    "view s.co --debug k.zebin -o k.zebin",
    "slim s.co s.co",
    "slim s.co out.co --debug-out s.co",
    "slim file://s.co#offset=0&size=9368 s.co",
    "extract --force s.elf .",
]
LINKS = [Path.symlink_to, Path.hardlink_to]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with one file of each kind."""
    for name, source in FILES.items():
        shutil.copy(source, tmp_path / name)
    pq.write_table(pa.table({"module": ["s.co"], "address": [0x1940]}), tmp_path / "s.parquet")
    shutil.copy(tmp_path / "s.parquet", tmp_path / "o.locations.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("call", CALLS)
def test_a_file_that_is_read_stays_as_it_was(run: Run, folder: Path, call: str) -> None:
    if call.startswith("extract"):  # a container of the name that the object in it gets
        shutil.copy(SAMPLES / "kernels" / "bin" / "vadd" / "dg2-opt.dbg", folder / "s.elf")
        names = run("extract", "s.elf", "out").out.split()
        (folder / "s.elf").rename(folder / Path(names[0]).name)
        shutil.rmtree(folder / "out")
        call = call.replace("s.elf", Path(names[0]).name)
    before = contents(folder)
    done = run(*call.replace("file://", f"file://{folder}/").split())
    assert (done.code, "this is the input itself (give another name)" in done.err) == (2, True), done.err
    assert contents(folder) == before


@pytest.mark.parametrize("link", LINKS)
def test_nor_is_one_replaced_by_way_of_a_link(run: Run, folder: Path, link: Callable[[Path, Path], None]) -> None:
    link(folder / "link", folder / "s.co")
    before = contents(folder)
    for call in ("view s.co -o link", "view link -o s.co", "batch -m link s.parquet s.co"):
        done = run(*call.split())
        assert (done.code, "this is the input itself" in done.err) == (2, True), done.err
    assert contents(folder) == before


def test_standard_input_may_be_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (folder / "s.co").open() as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        with pytest.raises(InvalidInput, match="input itself"):
            check_output_is_not_input(("s.co",), ("-",))
        check_output_is_not_input(("-", "k.cl", None), ("-", None))


def test_what_is_no_regular_file_may_be_both() -> None:
    check_output_is_not_input((os.devnull,), (os.devnull,))


def test_a_standard_input_without_a_file_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    check_output_is_not_input((__file__,), ("-",))


def test_a_profile_may_be_symbolized_in_place(run: Run, folder: Path) -> None:
    before = contents(folder)
    done = run("profile", "-m", "k.zebin", "p.pb.gz", "p.pb.gz")
    assert done.code == 0, done.err
    assert contents(folder)["p.pb.gz"] != before["p.pb.gz"]


def test_nor_does_the_function_for_tables(folder: Path) -> None:
    with (
        BatchSymbolizer(modules=["s.co"], form="hot-lines") as symbolizer,
        pytest.raises(InvalidInput, match="input itself"),
    ):
        symbolizer.write("s.parquet", "s.parquet")
