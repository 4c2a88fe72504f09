"""symd info, and facts on one line."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from symd.cli.info import facts_text
from tests.cli.conftest import ROOT, Run
from tests.cli.fake import DIGEST, FakeSymbolizer
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
    monkeypatch.setattr("symd.cli.file_objects.is_long", lambda *_: way == "large")
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
        assert there.out == here.out
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
    assert "metadata note is not msgpack that can be read: unhashable type: 'list'" in shown.out
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
