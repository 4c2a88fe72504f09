"""NVIDIA's driver, in folders made up as the kernel's driver and containers lay them out."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from symd.capture.drivers.discover import cuda_report
from tests.tools import require

CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\nGCC version:  gcc 12.2.0\n"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (dvs-builder@U22)\n"
ABSENT = "libnothing_of_that_name.so.1"


def kernel_driver(root: Path, version: str, *models: str) -> Path:
    """Devices are numbered from the last folder to the first: buses are not in the order of the files."""
    folder = root / "proc/driver/nvidia"
    (root / "dev").mkdir(exist_ok=True)
    (root / "dev/nvidiactl").touch()
    for number, model in enumerate(models):
        gpu = folder / "gpus" / f"0000:{len(models) - number:02x}:00.0"
        gpu.mkdir(parents=True)
        gpu.joinpath("information").write_text(
            f"Model: \t\t {model}\nIRQ:   \t\t 101\nGPU UUID: \t GPU-1\nDevice Minor: \t {number}\n"
        )
        (root / f"dev/nvidia{number}").touch()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "version").write_text(version)
    return root


@pytest.fixture
def library(tmp_path: Path) -> str:
    """A library that has the function, of CUDA 12.8."""
    return built_library(tmp_path, "*version = 12080;")


def built_library(tmp_path: Path, does: str) -> str:
    source = tmp_path / "cuda.c"
    source.write_text(f"#include <stdio.h>\nint cuDriverGetVersion(int *version) {{ {does} return 0; }}\n")
    built = tmp_path / "libcuda.so.1"
    subprocess.run([require("cc", "gcc"), "-shared", "-fPIC", "-o", built, source], check=True)
    return str(built)


def test_nothing_is_here(tmp_path: Path) -> None:
    report = cuda_report(tmp_path, ABSENT)
    assert (report.api, report.simulate, report.driver, report.devices) == ("cuda", None, "", ())
    assert report.problem == "no NVIDIA driver is here"
    assert "symd reads CUDA code without it" in report.hint


@pytest.mark.parametrize(("says", "version"), [(CLOSED, "535.183.01"), (OPEN, "580.159.04")])
def test_driver_and_devices(tmp_path: Path, library: str, says: str, version: str) -> None:
    report = cuda_report(kernel_driver(tmp_path, says, "NVIDIA H100 80GB HBM3", "NVIDIA L4"), library)
    assert (report.driver, report.problem) == (f"{version}, CUDA 12.8", "")
    assert report.devices == ("NVIDIA H100 80GB HBM3", "NVIDIA L4")


def test_a_container_has_the_devices_that_it_was_given(tmp_path: Path, library: str) -> None:
    root = kernel_driver(tmp_path, OPEN, "NVIDIA H100", "NVIDIA L4")
    (root / "dev/nvidia0").unlink()
    (root / "dev/nvidia12").touch()
    assert cuda_report(root, library).devices == ("NVIDIA L4", "/dev/nvidia12")


def test_a_driver_without_its_library(tmp_path: Path) -> None:
    report = cuda_report(kernel_driver(tmp_path, OPEN, "NVIDIA L4"), ABSENT)
    assert (report.driver, report.devices) == ("580.159.04", ("NVIDIA L4",))
    assert report.problem.startswith(f"the kernel's driver 580.159.04 is here, but {ABSENT} cannot be used: {ABSENT}: ")
    assert "libcuda1" in report.hint


def test_a_library_that_is_another(tmp_path: Path) -> None:
    report = cuda_report(kernel_driver(tmp_path, OPEN, "NVIDIA L4"), "libc.so.6")
    assert "cuDriverGetVersion" in report.problem
    assert "install one of the kernel driver's version, 580.159.04" in report.hint
    assert "apt-get" not in report.hint


def test_the_toolkit_s_stub(tmp_path: Path) -> None:
    report = cuda_report(kernel_driver(tmp_path, OPEN, "NVIDIA L4"), built_library(tmp_path, "return 34;"))
    assert report.problem.endswith("cuDriverGetVersion failed with 34")
    assert report.hint.endswith("take its folder, stubs, out of LD_LIBRARY_PATH")


def test_a_library_that_is_cut_off(tmp_path: Path) -> None:
    library = tmp_path / "libcuda.so.1"
    library.write_bytes(b"\x7fELF")
    report = cuda_report(kernel_driver(tmp_path, OPEN, "NVIDIA L4"), str(library))
    assert "file too short" in report.problem
    assert "is not whole" in report.hint


def test_a_library_that_prints(tmp_path: Path) -> None:
    library = built_library(tmp_path, 'puts("a profiler is here"); fflush(stdout); *version = 13000;')
    report = cuda_report(kernel_driver(tmp_path, OPEN, "NVIDIA H100"), library)
    assert (report.driver, report.problem) == ("580.159.04, CUDA 13.0", "")


def test_a_library_without_a_version(tmp_path: Path) -> None:
    report = cuda_report(kernel_driver(tmp_path, OPEN, "NVIDIA H100"), built_library(tmp_path, "*version = -5;"))
    assert report.problem.endswith("cannot be used: it says that it has version -5")


def test_a_library_without_a_driver(tmp_path: Path, library: str) -> None:
    report = cuda_report(tmp_path, library)
    assert (report.driver, "(CUDA 12.8) is here, but no driver of the kernel" in report.problem) == ("CUDA 12.8", True)
    assert "--gpus all" in report.hint


def test_a_driver_without_devices(tmp_path: Path, library: str) -> None:
    report = cuda_report(kernel_driver(tmp_path, OPEN), library)
    assert (report.devices, "there is no /dev/nvidia0" in report.problem) == ((), True)


def test_windows_has_a_device_of_its_own(tmp_path: Path, library: str) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/dxg").touch()
    assert cuda_report(tmp_path, library).problem == ""


def test_files_that_say_nothing(tmp_path: Path, library: str) -> None:
    root = kernel_driver(tmp_path, "", "")
    (root / "proc/driver/nvidia/gpus/0000:01:00.0/information").write_bytes(b"\xff" * 100)
    report = cuda_report(root, library)
    assert (report.driver, report.devices, report.problem) == ("CUDA 12.8", ("/dev/nvidia0",), "")
