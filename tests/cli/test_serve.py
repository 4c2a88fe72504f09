"""symd serve, and the verbs that ask it: same words, same output."""

import hashlib
from pathlib import Path

import pytest

from tests.cli.conftest import Run


@pytest.mark.parametrize("form", [["--json"], []], ids=["json", "text"])
def test_every_verb_prints_the_same_with_a_server(
    symd: Run, server: str, sample: Path, tmp_path: Path, form: list[str]
):
    for verb, *more in (
        ["info"],
        ["lines"],
        ["symbolize", "vadd+0", "0x10", "nobody+1"],
        ["extract", tmp_path / "out"],
    ):
        here = symd(verb, *form, sample, *more)
        there = symd(verb, *form, "--server", server, sample, *more)
        assert (there.code, there.out, there.err) == (here.code, here.out, here.err)
        assert here.out


def test_a_module_that_the_daemon_has_may_be_named(symd: Run, server: str, sample: Path):
    assert symd("info", "--server", server, sample).code == 0
    name = f"modules/{hashlib.sha256(sample.read_bytes()).hexdigest()}"
    outcome = symd("symbolize", "--json", "--server", server, name, "vadd+0")
    assert (outcome.code, outcome.json[0]["kernel"]) == (0, "vadd")


def test_a_module_that_the_daemon_has_not_is_a_no(symd: Run, server: str):
    outcome = symd("info", "--server", server, f"modules/{'0' * 64}")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.count("\n") == 1


def test_a_bad_file_is_the_same_error_with_a_server(symd: Run, server: str, tmp_path: Path):
    path = tmp_path / "noise"
    path.write_bytes(b"\x01\x02\x03\x04" * 9)
    here, there = symd("info", path), symd("info", "--server", server, path)
    assert (there.code, there.err) == (here.code, here.err)
    assert here.code == 2


@pytest.mark.parametrize(
    ("value", "said"),
    [("newer", "write NAME=FOLDER"), ("=/tmp", "write NAME=FOLDER"), ("newer=/nowhere/at/all", "no folder")],
)
def test_a_driver_of_the_daemon_is_a_name_and_a_folder_that_is_there(symd: Run, value: str, said: str):
    outcome = symd("serve", "--driver", value)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert said in outcome.err


def test_a_driver_that_the_daemon_does_not_know_is_refused_by_name(symd: Run, server: str, tmp_path: Path):
    source = tmp_path / "k.cl"
    source.write_text("kernel void k(global int* a) {}")
    outcome = symd("grab", source, "--driver", "newer", "--server", server)
    assert (outcome.code, outcome.out) == (2, "")
    assert "there is no driver 'newer' (none is configured" in outcome.err
