"""symd info of a profile: its values, modules and kernels, summed from the file by other means, and the call that comes
next."""

import csv
import gzip
import hashlib
import json
import shlex
from collections import Counter
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.profiles.messages import Profile
from tests.profiles.modules import AMD, SAMPLES, ZEBIN

PPROF, STALLS = SAMPLES / "kernels.pb.gz", SAMPLES / "stalls.csv"


def test_a_pprof_profile_is_described_by_its_mappings(run: Run) -> None:
    profile = Profile()
    profile.ParseFromString(gzip.decompress(PPROF.read_bytes()))
    texts = [each.decode() for each in profile.string_table]
    mappings = {each.id: each for each in profile.mapping}
    locations = {each.id: each for each in profile.location}
    sums, without = Counter[str](), Counter[str]()
    for sample in profile.sample:
        leaf = locations[sample.location_id[0]]
        within = (each for each in profile.mapping if each.memory_start <= leaf.address < each.memory_limit)
        name = texts[(mappings.get(leaf.mapping_id) or next(within)).filename]
        sums[name] += sample.value[0]
        without[name] += 0 if leaf.line else sample.value[0]
    outcome = run("info", "--json", PPROF)
    assert (outcome.code, outcome.err) == (0, "")
    [found] = outcome.json
    assert (found["file"], found["format"], found["samples"]) == (str(PPROF), "pprof", len(profile.sample))
    assert found["value_types"] == [
        {"name": texts[each.type], "unit": texts[each.unit], "total": sum(row.value[at] for row in profile.sample)}
        for at, each in enumerate(profile.sample_type)
    ]
    assert {each["module"] or "": each["value"] for each in found["modules"] if each["value"]} == dict(sums)
    assert {each["module"] or "": each["without_line"] for each in found["modules"] if each["value"]} == dict(without)
    build_ids = {texts[each.filename]: texts[each.build_id] or None for each in profile.mapping}
    assert {each["module"] or "": each["build_id"] for each in found["modules"]} == build_ids
    assert not found["kernels"]


def test_the_kernels_of_a_profile_that_names_no_module_are_listed(run: Run) -> None:
    sums = Counter[str]()
    with STALLS.open() as stream:
        rows = [[cell.strip() for cell in row] for row in csv.reader(stream)]
    for name, _, *values in (row for row in rows if len(row) > 2 and row[0] != "Kernel"):
        sums[name.strip('"')] += sum(map(int, filter(None, values)))
    [found] = run("info", "--json", STALLS).json
    assert {each["kernel"]: each["value"] for each in found["kernels"]} == {name: sums[name] for name in sums}
    assert (found["modules"], found["next"]) == ([], f"symd hot -m FILE {STALLS}")


def test_the_next_call_answers_once_its_files_are_named(run: Run) -> None:
    text = run("info", PPROF).out
    called = shlex.split(text.rpartition("next  symd ")[2])
    digest = hashlib.sha256(ZEBIN.read_bytes()).hexdigest()
    assert called == ["hot", "-m", "shade.co=FILE", "-m", f"{digest}=FILE", str(PPROF)]
    files = {"shade.co": AMD, digest: ZEBIN}
    named = [
        f"{each.removesuffix('=FILE')}={files[each.removesuffix('=FILE')]}" if "=FILE" in each else each
        for each in called
    ]
    answered = run(*named)
    assert answered.code == 0
    assert all(each in answered.out for each in ("/src/shade.hip:30 shade\n", "filters.clcpp:42 smooth\n"))


def test_a_profile_that_has_its_lines_needs_no_module(run: Run, tmp_path: Path) -> None:
    profile = tmp_path / "lines.folded"
    profile.write_text("main (a.cl:3);kernel (a.cl:7) 5\n")
    text = run("info", profile).out
    assert f"symd hot {profile}\n" in text
    assert "without a line" not in text


def test_several_files_may_be_modules_and_profiles(run: Run) -> None:
    outcome = run("info", AMD, PPROF)
    assert (outcome.code, outcome.err) == (0, "")
    assert "amdgpu for gfx90a" in outcome.out
    assert f"{PPROF}  pprof profile, 7 samples\n" in outcome.out


@pytest.mark.parametrize("verb", ["info", "hot"])
def test_a_database_without_samples_says_what_to_sample_with(run: Run, verb: str) -> None:
    outcome = run(verb, SAMPLES / "dispatches.db")
    assert (outcome.code, "(sample with rocprofv3 --pc-sampling-method" in outcome.err) == (2, True)


def test_what_is_neither_a_module_nor_a_profile_is_still_refused(run: Run, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"a": [1]}))
    outcome = run("info", other)
    assert (outcome.code, outcome.out) == (2, "")


@pytest.mark.parametrize(("name", "wanted"), [("cubin-", ""), ("cubin-xyz", "cubin-xyz"), (f"cubin-{10:016x}", "0xa")])
def test_whatever_a_module_is_called_the_profile_is_described(run: Run, tmp_path: Path, name: str, wanted: str) -> None:
    profile = Profile(string_table=[b"", b"samples", b"count", name.encode()])
    profile.sample_type.add(type=1, unit=2)
    profile.mapping.add(id=1, memory_start=0x1000, memory_limit=0x2000, filename=3)
    profile.location.add(id=1, mapping_id=1, address=0x1010)
    profile.sample.add(location_id=[1], value=[1])
    path = tmp_path / "p.pb"
    path.write_bytes(profile.SerializeToString())
    outcome = run("info", "--json", path)
    assert (outcome.code, outcome.err) == (0, "")
    [found] = outcome.json
    assert found["modules"] == [{"module": name, "build_id": None, "value": 1, "without_line": 1}]
    assert found["next"] == shlex.join(["symd", "hot", *(["-m", f"{wanted}=FILE"] if wanted else []), str(path)])
