"""A profile's samples as a table: the profile's own numbers, beside the frames that the module answers."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

import symd
from symd import profiles
from symd.errors import InvalidInput, UnknownFormat
from symd.model.answers import Frame
from symd.profiles.samples import Sample, SampledAddress, SampledModule, SampledProfile, Task, ValueType
from tests.python.conftest import SAMPLES

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
STALLS = SAMPLES / "profiles" / "stalls.csv"


@pytest.fixture(scope="module")
def filters():
    with symd.open(SAMPLES / "kernels" / "bin" / "filters" / "igc2-dg2-opt.zebin") as module:
        yield module


def test_a_sample_is_a_row_with_the_profile_s_numbers_and_the_module_s_frames(filters: symd.Module) -> None:
    heading, *lines = [line for line in STALLS.read_text().splitlines() if "," in line]
    names = [name.strip().removesuffix("[Events]") for name in heading.split(",")]
    wanted = [
        dict(zip(names, map(str.strip, next(csv.reader([line], skipinitialspace=True))), strict=True)) for line in lines
    ]
    found = filters.profile(STALLS).to_arrow().to_pylist()
    assert len(found) == len(wanted) > 3
    kernels = {kernel.name for kernel in filters.kernels}
    for row, said in zip(found, wanted, strict=True):
        assert all(row[name] == int(value) for name, value in said.items() if name in row)
        assert row["label"].startswith(said["Kernel"][:4])
        if said["Kernel"] in kernels:
            frames = filters.symbolize(f"{said['Kernel']}+0x{said['IP[Address]']}").frames
            assert row["depth"] == max(len(frames), 1)
            if frames:
                assert (row["function"], row["file"], row["line"]) == (
                    frames[0].function,
                    frames[0].file,
                    frames[0].line,
                )
    assert any(row["function"] for row in found)


@pytest.mark.parametrize("file", ["stalls.csv", "kernels.pb.gz", "kernels.otlp", "stacks.folded"])
def test_sums_and_stacks_are_those_of_the_profile(filters: symd.Module, file: str) -> None:
    profile = filters.profile(SAMPLES / "profiles" / file)
    frame = profile.to_pandas()
    assert tuple(frame[kind.name].sum() for kind in profile.value_types) == profile.totals()
    assert profile.totals() == profiles.samples((SAMPLES / "profiles" / file).read_bytes()).totals()
    rows = profile.to_pandas(frames=True)
    depths = [sum(len(profile.addresses[at].frames) or 1 for at in each.stack) for each in profile.samples]
    assert rows.groupby("sample").size().tolist() == depths == frame["depth"].tolist()


def test_every_kind_of_sample_has_its_cells() -> None:
    outer, inner = Frame("f", None, "a.cl", 3, 0, inlined=False), Frame("g", "_Zg", "a.cl", 9, 2, inlined=True)
    profile = SampledProfile(
        (ValueType("time", "ns"), ValueType("cpu", "count"), ValueType("cpu", "ns"), ValueType("share", "")),
        [SampledAddress("x", (inner, outer), 16, 0), SampledAddress("main")],
        [SampledModule("m.co")],
        [Task(), Task(7, 8, "t")],
        [Sample((0, 1), (5, 1, 2, 0.5), 1 << 60, 1), Sample((), (1, 2, 3, 4), None)],
    )
    first, second = profile.to_arrow().to_pylist()
    assert first == {
        "time (ns)": 5, "cpu (count)": 1, "cpu (ns)": 2, "share": 0.5, "time": 1 << 60, "process": 7, "thread": 8,
        "module": "m.co", "address": 16, "label": "x", "function": "g", "linkage_name": "_Zg", "file": "a.cl", "line": 9, "column": 2,
        "inlined": True, "depth": 3,
    }  # fmt: skip
    assert {name for name, value in second.items() if value is None} == {
        "time", "module", "address", "label", "function", "linkage_name", "file", "line", "column",
    }  # fmt: skip
    assert second["depth"] == 0
    rows = profile.to_arrow(frames=True).to_pylist()
    assert [(row["sample"], row["level"], row["function"], row["label"]) for row in rows] == [
        (0, 0, "g", "x"), (0, 1, "f", "x"), (0, 2, None, "main"),
    ]  # fmt: skip
    assert profile.to_arrow(frames=True).schema.field("address").type == profile.to_arrow().schema.field("address").type
    assert repr(profile) == "<SampledProfile: 2 samples, 6 time, 3 cpu, 5 cpu, 4.5 share>"


def test_what_is_no_profile_is_said_with_its_name(filters: symd.Module, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot read the file"):
        filters.profile(tmp_path / "missing")
    noise = tmp_path / "noise.bin"
    noise.write_bytes(b"\xff\xfe\x00" * 9)
    with pytest.raises(UnknownFormat, match=rf"^{re.escape(str(noise))}: "):
        filters.profile(noise)
    with pytest.raises(UnknownFormat, match=r"^the profile: "):
        filters.profile(noise.read_bytes())
