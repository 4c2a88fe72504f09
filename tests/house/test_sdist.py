"""The source distribution holds what the repository holds, so that whoever has it can build and test."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEFT_OUT = {".ci"}
"""What serves this repository alone."""


def test_the_manifest_names_every_folder_and_file_at_the_top() -> None:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("is no repository")
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    top = {line.partition("/")[0] for line in tracked.splitlines()} - LEFT_OUT
    built_in = {"symd", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"}
    named = {word for line in (ROOT / "MANIFEST.in").read_text().splitlines() for word in line.split()[1:]}
    assert top <= named | built_in
