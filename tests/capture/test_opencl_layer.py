"""The OpenCL layer in front of a made-up driver, for what the real ones cannot be made to do: builds that end after the call."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from symd.capture.ways import OPENCL_LAYER, library
from tests.capture.stand_in import DATA, FAILED, LOADED, UNLOADED, Taken, run_stand_in
from tests.tools import require

PROGRAM = Path(__file__).parent / "programs" / "notified.c"
CALLS = pytest.mark.parametrize("call", ["build", "compile", "link"])
REFUSED, BUILD_FAILED = -59, -11


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("notified") / "notified"
    subprocess.run([require("cc"), "-w", "-o", str(built), str(PROGRAM), "-ldl"], check=True)
    return built


def records(program: Path, folder: Path, call: str, answer: int, when: str, told: int) -> list[Taken]:
    with run_stand_in(folder) as run:
        environment = {"SYMD_CAPTURE": str(run.folder)}
        command = [str(program), str(library(OPENCL_LAYER)), call, str(answer), when]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        assert done.stdout == f"answered {answer}, told {told}\n"
        return run.records()


@CALLS
@pytest.mark.parametrize("when", ["during", "after"])
def test_a_build_is_told_when_it_has_ended(program: Path, tmp_path: Path, call: str, when: str) -> None:
    taken = records(program, tmp_path, call, 0, when, told=1)
    assert [record.kind for record in taken] == [LOADED, UNLOADED]
    assert taken[0].fields[DATA].startswith(b"\x7fELF of a stub")


@CALLS
@pytest.mark.parametrize(("when", "told"), [("during", 1), ("after", 1), ("never", 0)])
def test_a_build_that_fails_at_once_is_told_once(
    program: Path, tmp_path: Path, call: str, when: str, told: int
) -> None:
    (record,) = records(program, tmp_path, call, BUILD_FAILED, when, told)
    assert (record.kind, record.code) == (FAILED, BUILD_FAILED)


@CALLS
def test_a_build_that_is_refused_is_none(program: Path, tmp_path: Path, call: str) -> None:
    assert records(program, tmp_path, call, REFUSED, "never", told=0) == []
