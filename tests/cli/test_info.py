"""symd info."""

from dataclasses import replace
from pathlib import Path

from tests.cli.conftest import Run
from tests.cli.fake import DIGEST, FakeSymbolizer


def test_json_has_the_contracts_keys_in_its_order(run: Run, fake: FakeSymbolizer, module: Path):
    outcome = run("info", "--json", module)
    assert (outcome.code, outcome.err, outcome.out.count("\n")) == (0, "", 1)
    [described] = outcome.json
    assert list(described) == ["file", "format", "sha256", "objects", "notes"]
    [item] = described["objects"]
    assert list(item) == ["object", "format", "target", "size", "sha256", "debug", "kernels", "notes", "facts"]
    [kernel] = item["kernels"]
    assert list(kernel) == ["name", "section", "section_index", "offset", "size", "simd_width"]
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


def test_control_characters_of_a_module_do_not_reach_the_terminal(run: Run, fake: FakeSymbolizer, module: Path):
    fake.summary = replace(fake.summary, notes=("evil \x1b[2J\r\n note",))
    assert r"evil \x1b[2J\r\n note" in run("info", module).out


def test_a_real_module_from_a_file_and_from_stdin(symd: Run, sample: Path):
    by_name, by_stdin = symd("info", "--json", sample), symd("info", "--json", "-", stdin=sample.read_bytes())
    assert (by_name.code, by_stdin.code) == (0, 0)
    [first], [second] = by_name.json, by_stdin.json
    assert first["format"] == "igc-debug"
    assert [kernel["name"] for item in first["objects"] for kernel in item["kernels"]] == ["vadd"]
    assert {**second, "file": str(sample)} == first
