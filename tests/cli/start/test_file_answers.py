"""``symd symbolize FILE ADDRESS`` answers what it does when it reads everything, and the shortest way only where nothing else was asked."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from symd.cli.start import direct_answers, version_text
from symd.config import Limits
from symd.formats import elf
from symd.formats.budget import Budget

SAMPLES = Path(__file__).parents[3] / "samples"
FILE = SAMPLES / "amdgpu/bin/v4-gfx900.co"
PROGRAM = (
    "import sys; sys.argv = ['symd', 'symbolize', *sys.argv[1:]]\n"
    "import symd.cli.start, atexit\n"
    "atexit.register(lambda: print(*sys.modules))\n"
    "symd.cli.start.main()"
)


def run(*arguments: object) -> tuple[str, list[str]]:
    """What is written, and the modules that were imported."""
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    *lines, modules = done.stdout.splitlines()
    return "\n".join(lines), modules.split()


def test_answers_are_those_of_the_command_line() -> None:
    asked = [f"{address:#x}" for address in range(0x1900, 0x1A00, 4)]
    expected, _ = run("--limit", "batch=1000", FILE, *asked)
    assert "(inlined by)" in expected
    said = [direct_answers([str(FILE), text], {}) for text in asked]
    assert sum(text is not None for text in said) > 30
    singly = [
        run("--limit", "batch=1000", FILE, text)[0] + "\n" for text, own in zip(asked, said, strict=True) if own is None
    ]
    assert "".join(singly.pop(0) if own is None else own for own in said) == expected + "\n"


@pytest.mark.parametrize(
    ("place", "reason"),
    [("0x7fffffff", "0 text sections hold the address"), ("other+0", "0 kernels have the name")],
)
def test_the_log_says_why_an_answer_is_left_to_the_command_line(
    caplog: pytest.LogCaptureFixture, place: str, reason: str
) -> None:
    with caplog.at_level(logging.DEBUG, "symd.cli.start"):
        assert direct_answers([str(FILE), place], {}) is None
    assert f"{FILE} is left to the command line: {reason}" in caplog.text


def test_a_plain_answer_imports_no_numpy() -> None:
    said, modules = run(FILE, "0x1978", "6520", "shade+0x40")
    assert said == run("--limit", "batch=1000", FILE, "0x1978", "6520", "shade+0x40")[0]
    assert "symd.debuginfo.one_address" in modules
    assert not {"numpy", "click", "logging", "typing", "re", "symd.cli.command_line"}.intersection(modules)


@pytest.mark.parametrize(
    ("file", "place", "frames"),
    [
        ("tonemap.sm_80.lines.cubin", "tonemap+0x80", 4),
        ("raycast.sm_90.lines.cubin", "_Z5probePfPK6float3+0x210", 2),
        ("reduce.sm_100.lines.cubin", "_Z6reduceIi7LargestEvPKT_PS1_+0x210", 2),
        ("saxpy.debug.fatbin", "saxpy+0x40", 1),
        ("../../triton/bin/total-sm_90.cubin", "total+0x50", 1),
    ],
)
def test_a_cubins_answer_imports_no_numpy(file: str, place: str, frames: int) -> None:
    path = SAMPLES / "cuda/bin" / file
    said, modules = run(path, place)
    assert said == run("--limit", "batch=1000", path, place)[0]
    assert said.count("\n") >= frames - 1
    assert not {"numpy", "click"}.intersection(modules)


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["FILE"], {}),
        (["FILE", "-"], {}),
        (["--json", "FILE", "0x1978"], {}),
        (["FILE", "hade+0x40"], {}),
        (["FILE", "shade+0x100000"], {}),
        (["FILE", "(.text)+0x40"], {}),
        (["FILE", " shade+0x40"], {}),
        (["FILE", "+0x40"], {}),
        (["FILE", "0x1978", "0x1978", "0x1978", "0x1978"], {}),
        (["FILE", "0x1978", "0x7fffffffffffffff"], {}),
        ([f"file://{FILE}", "0x1978"], {}),
        ([str(SAMPLES / "kernels/bin/vadd/O0.spv"), "0x40"], {}),
        ([str(SAMPLES / "spirv/bin/inline.O2.none.spv"), "0x500"], {}),
        (["nowhere", "0x1978"], {}),
        (["no\0where", "0x1978"], {}),
        ([str(SAMPLES), "0x1978"], {}),
        ([os.devnull, "0x1978"], {}),
        ([str(SAMPLES / "amdgpu/bin/host"), "0x1978"], {}),
        ([str(SAMPLES / "cuda/bin/raycast.sm_90.debug.cubin"), "0x100"], {}),
        ([str(SAMPLES / "amdgpu/bin/split-22-dwarf5.co"), "0x1978"], {}),
        (["FILE", "0x1978"], {"SYMD_SERVER": "default"}),
    ],
)
def test_what_is_not_plain_is_left_to_the_command_line(arguments: list[str], environment: Mapping[str, str]) -> None:
    assert direct_answers([str(FILE), "0x1978", "6520"], {"SYMD_SERVER": "none"}) is not None
    assert direct_answers([str(FILE) if each == "FILE" else each for each in arguments], environment) is None


@pytest.mark.parametrize(
    ("file", "place"), [("blur/igc2-dg2-O0.zebin", "blur+0x40"), ("bodies/igc2-dg2-O0.zebin", "tiled+0x40")]
)
def test_a_zebin_of_several_functions_is_answered_without_numpy(file: str, place: str) -> None:
    path = SAMPLES / "kernels/bin" / file
    said, modules = run(path, place)
    assert said == run("--limit", "batch=1000", path, place)[0]
    assert "symd.debuginfo.dwarf.units" in modules
    assert not {"numpy", "click"}.intersection(modules)


def test_spirv_is_answered_without_numpy() -> None:
    """Instructions are asked by all that is said of them: [APPROXIMATE], [INFERRED], inlined calls, names of kernels."""
    for name, *queries in (
        ("kernels/bin/vadd/O0.spv", "vadd+0x40"),
        ("spirv/bin/inline.O2.ocl-100.spv", "0xf00", "0xf40"),
        ("spirv/bin/waves.gVS.spv", "0x1400", "0x1480"),
        ("slang/bin/eased.g1.spv", "0x580", "0x5c0"),
    ):
        said, modules = run(SAMPLES / name, *queries)
        assert said == run("--limit", "batch=1000", SAMPLES / name, *queries)[0]
        assert "symd.debuginfo.spirv.one_address" in modules
        assert not {
            "numpy",
            "click",
            "typing",
            "dataclasses",
            "symd.formats.elf",
            "symd.debuginfo.one_address",
        } & set(modules)


def test_a_file_that_ends_too_early_is_left_to_the_command_line(tmp_path: Path) -> None:
    data = FILE.read_bytes()
    for size in (0, 4, 19, 20, 63, 64, 1000, len(data) // 2, len(data) - 1):
        file = tmp_path / f"{size}.co"
        file.write_bytes(data[:size])
        assert direct_answers([str(file), "0x1978"], {}) is None


def test_the_version_is_said_without_the_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "symd", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"symd {version_text()}\n"
    assert not {"click", "pathlib"} & {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}


def test_a_file_that_is_refused_as_a_whole_answers_nothing(tmp_path: Path) -> None:
    """One symbol table ends inside a symbol, although the address needs no name of it."""
    data = bytearray(FILE.read_bytes())
    image = elf.parse(bytes(data), Budget(Limits()))
    number = next(number for number, section in enumerate(image.sections) if section.name == ".symtab")
    data[image.header.shoff + number * 64 + 32] -= 1
    file = tmp_path / "cut.co"
    file.write_bytes(data)
    assert direct_answers([str(FILE), "0x1978"], {}) is not None
    assert direct_answers([str(file), "0x1978"], {}) is None
