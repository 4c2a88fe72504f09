"""``symd verify`` as a user meets it: output, JSON and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

import symd
from symd.cli.verify import command
from symd.debuginfo.verify import comparison
from symd.errors import ObjectNotFound
from symd.model.answers import Reason
from tests.cli.conftest import Run

SAMPLES = Path(__file__).parents[2] / "samples"
RAYCAST = str(SAMPLES / "kernels" / "bin" / "raycast" / "dg2-opt-zebin.raycast.elf")
VADD = str(SAMPLES / "kernels" / "bin" / "vadd" / "dg2-opt.zebin")


def run(*arguments: str) -> int:
    return int(command.main(list(arguments), prog_name="symd verify", standalone_mode=False) or 0)


def test_a_file_without_a_difference_exits_with_0_and_says_what_was_compared(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(VADD) == 0
    assert capsys.readouterr().out.splitlines() == [
        "spirv: not compared: it is SPIR-V, which pyelftools does not read",
        f"{VADD}: 12 rows, 2 scopes and 11 variables compared with pyelftools, 0 differences",
    ]


def test_the_summary_is_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    with Path(VADD).open("rb") as file:
        text = ELFFile(file).get_section_by_name(".text.vadd")["sh_size"]
    assert run("--json", VADD) == 0
    assert json.loads(capsys.readouterr().out) == {
        "rows": 12,
        "scopes": 2,
        "variables": 11,
        "differences": 0,
        "deviations": [],
        "not_compared": [{"path": "spirv", "reason": "it is SPIR-V, which pyelftools does not read"}],
        "contradictory_bytes": 0,
        "text_bytes": text,
    }


def test_debug_data_that_contradicts_itself_is_not_passed_over(capsys: pytest.CaptureFixture[str]) -> None:
    """``symd symbolize`` is asked for every instruction byte, which counts what ``symd info`` sums up."""
    module = symd.open(RAYCAST)
    (kernel,) = module.summary.objects[0].kernels
    answers = module.symbolize(range(kernel.size), kernel=kernel.name)
    bytes_ = sum(answer.reason is Reason.CONTRADICTORY for answer in answers)
    assert bytes_
    assert run(RAYCAST) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2].endswith("0 differences")
    assert lines[-1] == (
        f"both readings agree; the debug data contradicts itself: {bytes_} of {kernel.size} bytes of code are CONTRADICTORY"
        f" (symd info {RAYCAST} shows where)"
    )
    assert run("--json", RAYCAST) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["contradictory_bytes"], found["text_bytes"]) == (bytes_, kernel.size)


def test_differences_exit_with_1_one_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = comparison.variables
    monkeypatch.setattr(comparison, "variables", lambda dies: (one._replace(name="wrong") for one in right(dies)))
    assert run(VADD) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("variable .debug_info variable 0: symd reads formal_parameter wrong: ")
    assert "; pyelftools reads formal_parameter a: " in lines[0]
    assert lines[-1].endswith("11 variables compared with pyelftools, 11 differences")
    assert run("--json", VADD) == 1
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(found) == 12
    assert list(found[0]) == ["path", "kind", "where", "ours", "theirs"]
    assert found[-1]["differences"] == 11


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("spirv/bin/inline.O2.ocl-100.spv", "it is SPIR-V, which pyelftools does not read"),
        ("amdgpu/bin/v4-gfx900-nodebug.co", "there is no debug data"),
    ],
)
def test_a_file_of_which_nothing_can_be_compared_says_why_and_exits_with_1(
    path: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(str(SAMPLES / path)) == 1
    out = capsys.readouterr().out
    assert f"not compared: {reason}" in out
    assert out.endswith(": nothing was compared, 0 differences\n")


def test_a_code_object_of_several_can_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--object", "spirv", VADD) == 1
    assert "nothing was compared" in capsys.readouterr().out
    with pytest.raises(ObjectNotFound):
        run("--object", "nowhere", VADD)


@pytest.mark.parametrize("dwarf", ["dwarf4", "dwarf5"])
def test_of_split_units_the_lines_alone_are_compared(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, dwarf: str
) -> None:
    name = f"split-19-{dwarf}"
    for each in (f"{name}.co", f"{name}.dwo", f"{name}-whole.co"):
        (tmp_path / each).write_bytes((SAMPLES / "amdgpu" / "bin" / each).read_bytes())
    said = []
    for each in (f"{name}.co", f"{name}-whole.co"):
        assert run("--json", str(tmp_path / each)) == 0
        said.append(json.loads(capsys.readouterr().out))
    split, whole = said
    assert split["rows"] == whole["rows"] > 0
    assert (split["scopes"], split["variables"], split["differences"]) == (0, 0, 0)
    assert "pyelftools does not read units of .dwo files" in split["not_compared"][0]["reason"]


@pytest.mark.parametrize("sample", ["kernels/bin/particles/skl-opt.bin", "amdgpu/bin/v4-gfx900.co"])
def test_a_module_of_a_daemon_is_verified_as_its_file_is(server: str, symd: Run, sample: str) -> None:
    file = SAMPLES / sample
    assert symd("info", "--server", server, file).code == 0
    (module,) = symd("modules", "--json", "--server", server).json
    of_file, of_daemon = (
        symd("verify", "--json", "--server", server, each) for each in (file, f"modules/{module['sha256'][:8]}")
    )
    assert (of_daemon.code, of_daemon.json) == (of_file.code, of_file.json)
    assert of_file.json[-1]["rows"] > 10


def test_with_a_daemon_named_files_are_read_here(symd: Run, tmp_path: Path) -> None:
    nobody = f"unix:{tmp_path}/nobody.sock"
    assert symd("verify", "--server", nobody, VADD).code == 0
    refused = symd("verify", "--server", nobody, "modules/0123")
    assert (refused.code, "no daemon is running" in refused.err) == (3, True)
