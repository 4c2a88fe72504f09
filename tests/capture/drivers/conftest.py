"""Driver folders whose loader libraries are C sources of a few lines, compiled here."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from symd.capture.drivers import Confinement, grab
from symd.config import Limits
from symd.model.grabs import GrabRequest

SPIRV = bytes.fromhex("03022307") + bytes(16)
SYSTEM_LOADER = Path("/lib64/ld-linux-x86-64.so.2")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A driver folder whose C library is the system's and whose loader libraries are empty files."""
    libraries = tmp_path / "usr/lib/x86_64-linux-gnu"
    libraries.mkdir(parents=True)
    (tmp_path / "usr/lib64").mkdir()
    if not SYSTEM_LOADER.exists():
        pytest.skip("not an x86-64 machine")
    (tmp_path / "usr/lib64/ld-linux-x86-64.so.2").symlink_to(SYSTEM_LOADER)
    for name in ("libze_loader.so.1", "libOpenCL.so.1"):
        (libraries / name).touch()
    return tmp_path


@pytest.fixture
def level_zero(folder: Path):
    """Grab from a Level Zero loader written in C."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler is installed")

    def take(
        source: str, *, timeout: float = 20.0, limits: Limits | None = None, confinement: Confinement | None = None
    ):
        library = folder / "usr/lib/x86_64-linux-gnu/libze_loader.so.1"
        text = f"#define _GNU_SOURCE\n#include <stdlib.h>\n#include <stdio.h>\n#include <unistd.h>\n{source}"
        command = [compiler, "-shared", "-fPIC", "-w", "-x", "c", "-", "-o", str(library)]
        subprocess.run(command, input=text, text=True, check=True)
        request = GrabRequest("level-zero", "spirv", SPIRV, driver="made", timeout=timeout, label="m.spv")
        return grab(request, limits or Limits(), {"made": str(folder)}, confinement)

    return take
