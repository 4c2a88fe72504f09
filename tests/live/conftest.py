"""Real drivers for live tests: the system's generation, and the newer one in the folder that SYMD_LIVE_NEW_ROOT names.

A driver that is missing fails a test under CI and skips it elsewhere, with the reason.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest

from symd.capture.drivers import PRODUCTS, Confinement, grab, survey
from symd.capture.drivers.runner import DriverReport
from symd.config import Limits
from symd.model.grabs import Grabbed, GrabRequest
from tests.tools import require

_ROOT = os.environ.get("SYMD_LIVE_NEW_ROOT")
NEWER_ROOT = str(Path(_ROOT).resolve()) if _ROOT else None
DRIVERS = {"newer": NEWER_ROOT} if NEWER_ROOT else {}
NEWER = ("tgllp", "dg2", "pvc", "bmg")
LIVE_NEW = Path(__file__).parents[2] / "tools" / "live_new.py"


def missing(reason: str) -> NoReturn:
    """A driver is not here: that is a failure under CI and a skip elsewhere."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@dataclass(frozen=True, slots=True)
class Built:
    """What ocloc wrote: the SPIR-V, the device binary and, from the older generation, the debug data beside it."""

    spirv: bytes
    binary: bytes
    debug: bytes | None


@dataclass(frozen=True, slots=True)
class Target:
    """One simulated product of one driver generation; ``root`` is None for the system's."""

    product: str
    root: str | None

    @property
    def driver(self) -> str:
        """The name of the generation among ``DRIVERS``; "" for the system's."""
        return "" if self.root is None else "newer"

    def grab(
        self,
        api: str,
        kind: str,
        data: bytes,
        build_flags: str = "-g",
        confinement: Confinement | None = None,
        **more: object,
    ) -> Grabbed:
        """Grab with this target's real driver, confined as a daemon does it where nothing else is asked for."""
        fields = {"simulate": self.product, "driver": self.driver, **more}
        return grab(GrabRequest(api, kind, data, build_flags, **fields), Limits(), DRIVERS, confinement)  # type: ignore[arg-type]

    def compile(self, source: Path, folder: Path, options: str = "-g", *, product: str | None = None) -> Built:
        """Compile OpenCL C with this generation's own ocloc, for this or another product."""
        tail = ["-device", product or self.product, "-options", options, "-out_dir", str(folder)]
        words = [*self._ocloc(), "compile", "-file", str(source), *tail]
        done = subprocess.run(words, check=False, capture_output=True, text=True, cwd=folder)
        assert done.returncode == 0, done.stdout + done.stderr
        debug = next(folder.glob("*.dbg"), None)
        spirv, binary = next(folder.glob("*.spv")), next(folder.glob("*.bin"))
        return Built(spirv.read_bytes(), binary.read_bytes(), debug.read_bytes() if debug else None)

    def _ocloc(self) -> list[str]:
        if self.root is None:
            return [require("ocloc")]
        return [sys.executable, str(LIVE_NEW), "--root", self.root, "ocloc"]


@cache
def reports(root: str | None) -> tuple[DriverReport, ...]:
    return tuple(survey(root))


def demand(target: Target, api: str) -> None:
    """Stop the test unless this target's driver is here for one interface."""
    found = [report for report in reports(target.root) if report.api == api and report.simulate == target.product]
    if not found or found[0].problem:
        said = next((report for report in reports(target.root) if report.api == api and report.simulate), None)
        missing(f"{api}: {said.problem} ({said.hint})" if said else f"{api}: no driver")


def _targets() -> list[object]:
    old = [pytest.param(Target(name, None), id=name, marks=pytest.mark.live) for name in PRODUCTS]
    new = [pytest.param(Target(name, NEWER_ROOT), id=f"newer-{name}", marks=pytest.mark.live_new) for name in NEWER]
    return old + new


@pytest.fixture(params=_targets())
def target(request: pytest.FixtureRequest) -> Target:
    """Each simulated product of each driver generation."""
    chosen: Target = request.param
    if request.node.get_closest_marker("live_new") and NEWER_ROOT is None:
        pytest.skip("SYMD_LIVE_NEW_ROOT is not set; `make live-new` sets the newer drivers up")
    return chosen


@pytest.fixture(params=["level-zero", "opencl"])
def api(request: pytest.FixtureRequest, target: Target) -> str:
    """Each driver interface, where the target has it."""
    demand(target, request.param)
    return str(request.param)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    """Write a source file into a folder of its own and give its path."""

    def writer(name: str, text: str) -> Path:
        path = tmp_path / "source" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    return writer
