"""The sample that is debugged: a program with a GPU module in its memory, and a device address in a variable."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools import require

ROOT = Path(__file__).parents[3]
SAMPLES = ROOT / "samples"
BASE = 0x7F0000100000
PATIENCE = 180
SOURCE = SAMPLES / "clients" / "fault.c"
"""It stops in ``report_fault``; ``fault``, ``loaded_at``, ``code_object`` and ``code_object_size`` are variables."""


def compiled(folder: Path) -> Path:
    """The program, with debug data of its own."""
    program = folder / "fault"
    assert f"loaded_at = {BASE:#x};" in SOURCE.read_text()
    subprocess.run([require("gcc", "cc"), "-g", "-O0", SOURCE, "-o", program], check=True, timeout=PATIENCE)
    return program


def symd_script(folder: Path) -> Path:
    """A file that runs this symd, as the debugger's setting names it."""
    script = folder / "symd"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m symd "$@"\n')
    script.chmod(0o755)
    return script


def untraceable(said: str) -> None:
    """Skips a test where the system lets no program be traced, or has no pseudo-terminals, as many containers have it."""
    pytest.skip(f"programs cannot be traced here: {said[-300:]}")
