"""``symd symbolize FILE -`` answers what the command line does, and without its libraries only where nothing else was asked."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from symd.cli.start.piped_answers import piped_answers

SAMPLES = Path(__file__).parents[3] / "samples"
FILE = SAMPLES / "amdgpu/bin/v4-gfx900.co"
STARTED = (
    "import os, sys; sys.argv[1:1] = ['symbolize']\n"
    "import symd.cli.start\n"
    "leave = os._exit\n"
    "def say_imported(code):\n"
    "    print(*sys.modules, file=sys.stderr, flush=True)\n"
    "    leave(code)\n"
    "if sys.argv[-1] == 'imported': os._exit, sys.argv = say_imported, sys.argv[:-1]\n"
    "symd.cli.start.main()"
)
COMMAND_LINE = "import sys; sys.argv[1:1] = ['symbolize']; from symd.cli import main; main()"
MANY = "".join(f"{address:#x}\n" for address in range(0x1800, 0x2400, 4))


def run(program: str, *arguments: object, asked: str = MANY, closing: str = "") -> tuple[int, str, str]:
    """Exit code, answers, and what else was said."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(
        ["sh", "-c", f'"$@" {closing}', "sh", *command],
        input=asked, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "file",
    [
        "amdgpu/bin/v4-gfx900.co",
        "amdgpu/bin/v4-gfx900.o",
        "amdgpu/bin/host",
        "cuda/bin/raycast.sm_90.debug.cubin",
        "kernels/bin/filters/igc2-dg2-opt.zebin",
        "kernels/vadd.cl",
        "nowhere",
        "",
    ],
)
def test_answers_and_errors_are_those_of_the_command_line(file: str) -> None:
    for asked in (MANY, "shade+0x40\n\nsade+1\n6520\n1978\n0xx\n", ""):
        found = run(STARTED, SAMPLES / file, "-", asked=asked)
        assert found == run(COMMAND_LINE, SAMPLES / file, "-", asked=asked)
        assert "Traceback" not in found[2]


@pytest.mark.parametrize("closing", ["<&-", ">&-", "2>&-", ">/dev/full", ">&- 2>&-"])
def test_closed_and_full_streams_are_as_for_the_command_line(closing: str) -> None:
    found = run(STARTED, FILE, "-", closing=closing)
    assert found == run(COMMAND_LINE, FILE, "-", closing=closing)
    assert "Traceback" not in found[2]


def test_a_session_imports_no_command_line() -> None:
    _, said, modules = run(STARTED, FILE, "-", "imported")
    assert said == run(COMMAND_LINE, FILE, "-")[1]
    assert "symd.cli.session" in modules.split()
    assert not {"click", "symd.cli.command_line", "symd.cli.options"}.intersection(modules.split())


def test_a_session_about_one_code_object_imports_what_that_needs() -> None:
    """Nothing of a daemon, or of formats behind the one that claims the file."""
    before = run("import sys; print(*sys.modules)")[
        1
    ].split()  # an environment may import some itself, by its .pth files
    modules = set(run(STARTED, FILE, "-", "imported")[2].split()).difference(before)
    assert {"symd.formats.containers.amd.amdgpu", "symd.index.builder"} <= modules
    foreign = ("pathlib", "shlex", "threading", "symd.server.config", "symd.engine.files.large_file")
    others = (
        "symd.formats.containers.host_elf",
        "symd.formats.containers.archive",
        "symd.formats.containers.nvidia",
        "symd.formats.containers.llvm",
    )
    assert not {*foreign, *others, "symd.index.partial"}.intersection(modules)


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["modules/00", "-"], {}),
        ([f"file://{FILE}", "-"], {}),
        ([f"{FILE}.gz", "-"], {}),
        (["--json", "-"], {}),
        (["-", "-"], {}),
        ([str(FILE), "-"], {"SYMD_SERVER": "default"}),
    ],
)
def test_what_says_more_than_a_file_is_left_to_the_command_line(
    arguments: list[str], environment: Mapping[str, str]
) -> None:
    assert piped_answers(arguments, environment) is None
