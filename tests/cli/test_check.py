"""``symd check`` as a user meets it: output, JSON and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from symd.cli.check import command
from symd.errors import InvalidInput
from symd.spirv_check import RULES

BIN = Path(__file__).parents[2] / "samples" / "spirv" / "bin"
ARGUMENTS = str(BIN / "arguments.O2.ocl-100.spv")


def run(*arguments: str) -> int:
    return int(command.main(list(arguments), prog_name="symd check", standalone_mode=False) or 0)


def test_a_valid_module_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(BIN / "inline.O2.ocl-100.spv")) == 0
    assert capsys.readouterr().out.endswith("inline.O2.ocl-100.spv: valid, 0 errors, 0 unsupported\n")


def test_a_refused_module_exits_with_1_and_names_each_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(BIN / "waves.g.spv")) == 1
    out = capsys.readouterr().out
    assert "(exec-model)" in out
    assert "(memory-model)" in out


def test_what_drivers_take_in_practice_exits_with_1_only_when_strict() -> None:
    newest = ("--device", "spirv_max=1.4")
    assert run(ARGUMENTS, *newest) == 0
    assert run(ARGUMENTS, *newest, "--strict") == 1
    assert run(ARGUMENTS) == 1  # SPIR-V 1.4 is above the default device's 1.2


def test_json_is_one_object_of_the_promised_fields(capsys: pytest.CaptureFixture[str]) -> None:
    run("--json", "--device", "spirv_max=1.4", ARGUMENTS)
    (line,) = capsys.readouterr().out.splitlines()
    report = json.loads(line)
    assert list(report) == ["valid", "violations"]
    assert report["valid"] is False
    assert {tuple(violation) for violation in report["violations"]} == {
        ("rule", "severity", "offset", "message", "accepted_in_practice")
    }
    assert {violation["rule"] for violation in report["violations"]} <= set(RULES)
    assert {violation["severity"] for violation in report["violations"]} == {"error", "unsupported"}


def test_what_is_no_spirv_breaks_the_header_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("no module")
    assert run("--json", str(path)) == 1
    report = json.loads(capsys.readouterr().out)
    assert [violation["rule"] for violation in report["violations"]] == ["header"]


def test_a_wrong_device_and_a_missing_file_are_wrong_calls() -> None:
    with pytest.raises(InvalidInput, match="colour"):
        run(ARGUMENTS, "--device", "colour=blue")
    with pytest.raises(InvalidInput, match="cannot read"):
        run(str(BIN / "nowhere.spv"))
