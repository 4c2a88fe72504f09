"""NVIDIA's driver, by the answers of a program in the place of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from symd.capture.drivers.runner import cuda_report


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that writes nothing yet, the only one on the path beside the shell's."""
    program = tmp_path / "nvidia-smi"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return program


def test_nothing_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    report = cuda_report()
    assert (report.api, report.simulate, report.driver, report.devices) == ("cuda", None, "", ())
    assert report.problem.startswith("no NVIDIA driver is here")
    assert "symd reads CUDA code without it" in report.hint


def test_driver_and_devices(nvidia_smi: Path) -> None:
    """A name may have a comma, a version has none."""
    nvidia_smi.write_text(
        '#!/bin/sh\n[ "$*" = "--query-gpu=name,driver_version --format=csv,noheader" ] || exit 2\n'
        "echo 'NVIDIA H100 80GB, HBM3, 580.159.04'\necho 'NVIDIA L4, 580.159.04'\n"
    )
    report = cuda_report()
    assert (report.driver, report.problem) == ("580.159.04", "")
    assert report.devices == ("NVIDIA H100 80GB, HBM3", "NVIDIA L4")


@pytest.mark.parametrize(
    ("does", "said"),
    [
        (
            "echo 'NVIDIA-SMI has failed because it could not reach the driver.'; exit 9",
            "NVIDIA-SMI has failed because",
        ),
        ("echo 'No devices were found'", "No devices were found"),
        ("echo 'cannot open libnvidia-ml.so.1' >&2; exit 12", "cannot open libnvidia-ml.so.1"),
    ],
)
def test_a_driver_that_does_not_answer(nvidia_smi: Path, does: str, said: str) -> None:
    nvidia_smi.write_text(f"#!/bin/sh\n{does}\n")
    report = cuda_report()
    assert report.devices == ()
    assert report.problem.startswith(f"nvidia-smi says: {said}")
    assert "--gpus all" in report.hint
