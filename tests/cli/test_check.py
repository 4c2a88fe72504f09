"""``symd check`` as a user meets it: output, JSON and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from symd.cli.check import command
from symd.errors import InvalidInput
from symd.formats.spirv_rules import RULES

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
    assert run(ARGUMENTS) == 0
    assert run(ARGUMENTS, "--strict") == 1
    assert run(ARGUMENTS, "--device", "spirv_max=1.2") == 1  # it is SPIR-V 1.4


def test_a_device_may_be_a_product_of_a_driver_s_generation() -> None:
    dpcpp = str(BIN / "blend.dpcpp.spv")
    assert run(dpcpp) == run(dpcpp, "--device", "26.27:dg2") == 0
    assert run(dpcpp, "--device", "22.43:dg2") == run(dpcpp, "--device", "dg2") == 1
    assert run(dpcpp, "--device", "26.27:dg2,spirv_max=1.2") == 1
    with pytest.raises(InvalidInput, match=r"22\.43:dg2"):
        run(dpcpp, "--device", "25.01:dg2")


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


def test_what_is_plainly_something_else_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidInput, match="it is of the format igc-debug, not SPIR-V"):
        run("samples/kernels/bin/vadd/dg2-opt.dbg")


def test_a_wrong_device_and_a_missing_file_are_wrong_calls() -> None:
    with pytest.raises(InvalidInput, match="colour"):
        run(ARGUMENTS, "--device", "colour=blue")
    with pytest.raises(InvalidInput, match="cannot read"):
        run(str(BIN / "nowhere.spv"))
