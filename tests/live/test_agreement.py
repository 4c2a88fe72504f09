"""What the real drivers return for every sample kernel answers as LLVM does, row for row and frame for frame."""

from __future__ import annotations

from pathlib import Path

import pytest

from symd.capture.drivers import Confinement
from symd.model.grabs import Grabbed
from tests.agreement.comparison import FUNCTIONS_ONLY, compare_container, compare_zebin
from tests.agreement.samples import KERNELS
from tests.live.conftest import Target, demand

SPIRV = sorted(path.parent.name for path in (KERNELS / "bin").glob("*/opt.spv"))
SOURCES = sorted(path.stem for path in KERNELS.glob("*.cl") if path.stem in SPIRV)
LEVELS = {"opt": ("", ""), "O0": (" -ze-opt-disable", " -cl-opt-disable")}


def compare(target: Target, grabbed: Grabbed, folder: Path) -> None:
    kernels = set(grabbed.kernels) - {FUNCTIONS_ONLY}
    chosen = compare_container if target.root is None else compare_zebin
    assert chosen(grabbed.debug_data, kernels, folder) > 0


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("source", SPIRV)
def test_level_zero_debug_data_agrees_with_llvm(target: Target, source: str, level: str, tmp_path: Path) -> None:
    demand(target, "level-zero")
    spirv = (KERNELS / "bin" / source / f"{level}.spv").read_bytes()
    compare(target, target.grab("level-zero", "spirv", spirv, "-g" + LEVELS[level][0]), tmp_path)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("source", SOURCES)
def test_opencl_debug_data_agrees_with_llvm(target: Target, source: str, level: str, tmp_path: Path) -> None:
    demand(target, "opencl")
    text = (KERNELS / f"{source}.cl").read_bytes()
    flags = f"-g -I {KERNELS / 'include'}{LEVELS[level][1]}"
    compare(target, target.grab("opencl", "source", text, flags, Confinement.NONE), tmp_path)
