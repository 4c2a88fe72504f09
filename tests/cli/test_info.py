"""symd info: facts on one line, and a profile's values, modules and kernels, summed from the file by other means."""

import csv
import gzip
import hashlib
import json
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from symd.cli.info import facts_text
from tests.cli.conftest import ROOT, Run
from tests.cli.fake import DIGEST, FakeSymbolizer
from tests.profiles.messages import Profile
from tests.profiles.modules import AMD, SAMPLES, ZEBIN
from tests.tools import output, require

CUDA = ROOT / "samples" / "cuda" / "bin"


def test_json_has_the_contracts_keys_in_its_order(run: Run, fake: FakeSymbolizer, module: Path):
    outcome = run("info", "--json", module)
    assert (outcome.code, outcome.err, outcome.out.count("\n")) == (0, "", 1)
    [described] = outcome.json
    assert list(described) == ["file", "format", "sha256", "objects", "notes", "containers"]
    [item] = described["objects"]
    assert list(item) == ["object", "format", "target", "size", "sha256", "debug", "kernels", "notes", "facts"]
    [kernel] = item["kernels"]
    assert list(kernel) == ["name", "section", "section_index", "offset", "size", "address", "simd_width"]
    assert described["file"] == str(module)
    assert described["sha256"] == DIGEST
    assert kernel["size"] == 640


def test_text_is_plain_outside_a_terminal_and_says_everything(run: Run, fake: FakeSymbolizer, module: Path):
    outcome = run("info", module)
    assert "\x1b" not in outcome.out
    for word in (
        str(module),
        "zebin",
        DIGEST,
        "a note",
        "half a note",
        "dwarf-4",
        "vadd",
        ".text.vadd+0x0",
        "simd_width 16",
    ):
        assert word in outcome.out
    assert not [line for line in outcome.out.splitlines() if line != line.rstrip()]


def kernels_as_readelf_has_them(file: Path) -> dict[str, int]:
    """The addresses of an AMD code object's kernels, whose descriptors have their names with .kd."""
    symbols = output(require("readelf"), "-sW", file)
    functions = re.findall(r": ([0-9a-f]{16}) +\d+ FUNC .* (\S+)$", symbols, re.MULTILINE)
    return {name: int(value, 16) for value, name in functions if f"{name}.kd" in symbols}


@pytest.mark.parametrize("way", ["here", "daemon", "large"])
def test_a_kernel_has_the_address_that_other_tools_print(
    run: Run, server: str, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    file = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
    monkeypatch.setattr("symd.cli.code_objects.is_long", lambda *_: way == "large")
    more = ["--server", server] if way == "daemon" else []
    expected = kernels_as_readelf_has_them(file)
    assert set(expected) == {"shade", "clear"}
    [described] = run("info", "--json", *more, file).json
    assert {each["name"]: each["address"] for each in described["objects"][0]["kernels"]} == expected
    text = run("info", *more, file).out
    for name, address in expected.items():
        assert re.search(rf"kernel  {name}  \.text\+0x[0-9a-f]+ at {address:#x}, ", text)


def test_a_kernel_in_a_section_at_0_has_its_offset_as_its_address(run: Run) -> None:
    file = CUDA / "raycast.sm_90.lines.cubin"
    [described] = run("info", "--json", file).json
    assert [(each["offset"], each["address"]) for each in described["objects"][0]["kernels"]] == [(0, 0), (0, 0)]
    assert " at 0x" not in run("info", file).out


def test_control_characters_of_a_module_do_not_reach_the_terminal(run: Run, fake: FakeSymbolizer, module: Path):
    fake.summary = fake.summary._replace(notes=("evil \x1b[2J\r\n note",))
    assert r"evil \x1b[2J\r\n note" in run("info", module).out


def test_a_real_module_from_a_file_and_from_stdin(symd: Run, sample: Path):
    by_name, by_stdin = symd("info", "--json", sample), symd("info", "--json", "-", stdin=sample.read_bytes())
    assert (by_name.code, by_stdin.code) == (0, 0)
    [first], [second] = by_name.json, by_stdin.json
    assert first["format"] == "igc-debug"
    assert [kernel["name"] for item in first["objects"] for kernel in item["kernels"]] == ["vadd"]
    assert {**second, "file": str(sample)} == first


def test_a_file_is_described_without_importing_an_engine(sample: Path):
    script = f"import sys; from symd.cli import command_line; command_line.invoke(['info', {str(sample)!r}]); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    imported = set(done.stdout.splitlines()[-1].split())
    assert "symd.cli.info" in imported
    assert not imported & {"symd.engine.engine", "symd.engine.reading.questions", "symd.store.store", "grpc"}


ENTRIES = {
    "saxpy.ptx.fatbin": {("PTX", "compute_90")},
    "saxpy.lto.fatbin": {("LTO", "lto_90")},
    "tonemap.zstd.fatbin": {("ELF", "sm_80"), ("ELF", "sm_90a"), ("PTX", "compute_90")},
    "tonemap.none.fatbin": {("ELF", "sm_80"), ("ELF", "sm_90a"), ("PTX", "compute_90")},
}
"""What the commands that made them ask for: `code=` of each -gencode in samples/cuda/manifest.json."""


@pytest.mark.parametrize("name", ENTRIES)
def test_every_entry_of_a_fat_binary_is_listed_also_without_machine_code(run: Run, name: str):
    [container] = run("info", "--json", CUDA / name).json[0]["containers"]
    assert (container["container"], container["format"]) == ("", "cuda-fatbin")
    assert {(entry["kind"], entry["target"]) for entry in container["facts"]["entries"]} == ENTRIES[name]
    lines = run("info", CUDA / name).out.splitlines()
    assert sum("entry  kind" in line for line in lines) == len(ENTRIES[name])


def test_containers_are_named_by_their_place(run: Run):
    [told] = run("info", "--json", CUDA / "program").json
    assert [(one["container"], one["format"]) for one in told["containers"]] == [
        ("", "host-elf"),
        (".nv_fatbin", "cuda-fatbin"),
    ]


def test_a_code_object_alone_has_no_container(run: Run, sample: Path):
    assert run("info", "--json", CUDA / "saxpy.sm_75.lines.cubin").json[0]["containers"] == []
    [outer] = run("info", "--json", sample).json[0]["containers"]
    assert (outer["format"], outer["facts"]["kernel_count"]) == ("igc-debug", 1)


def test_a_daemon_tells_of_the_same_containers(symd: Run, server: str):
    for form in ([], ["--json"]):
        here, there = (symd("info", *form, *more, CUDA / "program.o") for more in ([], ["--server", server]))
        told = [line for line in there.out.splitlines(keepends=True) if not line.startswith("├── daemon  ")]
        assert "".join(told) == here.out
        assert "cuda-fatbin" in here.out


def test_arguments_read_as_a_declaration(run: Run, fake: FakeSymbolizer, module: Path):
    arguments = [
        {"name": "a", "type": "float*", "address_space": "global"},
        {"name": "n", "type": "uint"},
        {"ordinal": 2, "size": 4},
    ]
    item = fake.summary.objects[0]
    kernel = item.kernels[0]._replace(facts={"arguments": arguments})
    fake.summary = fake.summary._replace(objects=(item._replace(kernels=(kernel,)),))
    assert "arguments (global float* a, uint n, 4 bytes)" in run("info", module).out


def test_a_damaged_metadata_note_is_shown_and_the_kernels_are_listed(symd: Run, tmp_path: Path):
    data = (ROOT / "samples/amdgpu/bin/v4-gfx900.co").read_bytes()
    path = tmp_path / "damaged.co"
    path.write_bytes(data.replace(b"\xa5.args", b"\x90.args", 1))
    shown = symd("info", path)
    assert shown.code == 0
    assert "metadata note is not msgpack that can be read: list is not allowed for map key" in shown.out
    assert "shade" in shown.out


def test_records_are_counted_and_tables_are_read_without_braces():
    facts = {
        "registers": 20,
        "constant_banks": {"0": 552, "3": 8},
        "arguments": [{"type": "int", "name": "n"}, {"size": 8}],
        "attributes": [{"id": 55, "value": [130]}, {"id": 23, "value": [0]}],
        "max_threads": [64, 1, 1],
        "aliases": [],
        "language": "OpenCL C",
    }
    assert facts_text(facts) == (
        "registers 20, constant_banks (0: 552, 3: 8), arguments (int n, 8 bytes), attributes 2, max_threads [64, 1, 1], "
        "aliases none, language OpenCL C"
    )


def test_info_and_names_of_a_cubin_print_no_records(run: Run):
    cubin = ROOT / "samples" / "cuda" / "bin" / "raycast.sm_90.debug.cubin"
    for outcome in (run("info", cubin), run("names", cubin, "*")):
        assert outcome.code == 0
        assert '"id"' not in outcome.out
        assert "attributes" in outcome.out


def test_a_file_without_names_is_not_told_to_look_for_all_of_them(run: Run, tmp_path):
    outcome = run("names", ROOT / "samples" / "cuda" / "bin" / "saxpy.ptx.fatbin", "*")
    assert outcome.code == 1
    assert "no names of functions" in outcome.err
    assert "'*' shows" not in outcome.err


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
