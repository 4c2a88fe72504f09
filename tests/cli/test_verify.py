"""``symd verify`` as a user meets it: output, JSON and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from symd.cli.verify import command
from symd.errors import ObjectNotFound
from symd.verify import own_reading

SAMPLES = Path(__file__).parents[2] / "samples"
VADD = str(SAMPLES / "kernels" / "bin" / "vadd" / "dg2-opt.zebin")


def run(*arguments: str) -> int:
    return int(command.main(list(arguments), prog_name="symd verify", standalone_mode=False) or 0)


def test_a_file_without_a_difference_exits_with_0_and_says_what_was_compared(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(VADD) == 0
    assert capsys.readouterr().out.splitlines() == [
        "spirv: not compared: it is SPIR-V, which pyelftools does not read",
        f"{VADD}: 12 rows, 2 scopes and 11 variables compared, 0 differences",
    ]


def test_the_summary_is_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--json", VADD) == 0
    assert json.loads(capsys.readouterr().out) == {
        "rows": 12,
        "scopes": 2,
        "variables": 11,
        "differences": 0,
        "deviations": [],
        "not_compared": [{"path": "spirv", "reason": "it is SPIR-V, which pyelftools does not read"}],
    }


def test_differences_exit_with_1_one_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = own_reading.variables
    monkeypatch.setattr(own_reading, "variables", lambda dies: (one._replace(name="wrong") for one in right(dies)))
    assert run(VADD) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("variable .debug_info variable 0: symd reads formal_parameter wrong: ")
    assert "; pyelftools reads formal_parameter a: " in lines[0]
    assert lines[-1].endswith("11 variables compared, 11 differences")
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
def test_a_file_of_which_nothing_can_be_compared_says_why(
    path: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(str(SAMPLES / path)) == 0
    out = capsys.readouterr().out
    assert f"not compared: {reason}" in out
    assert out.endswith(": nothing was compared, 0 differences\n")


def test_a_code_object_of_several_can_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--object", "spirv", VADD) == 0
    assert "nothing was compared" in capsys.readouterr().out
    with pytest.raises(ObjectNotFound):
        run("--object", "nowhere", VADD)
