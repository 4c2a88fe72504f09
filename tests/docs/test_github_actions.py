"""The step of docs/integrations.md for GitHub Actions passes where every kernel has its lines, and fails where one lost them."""

from __future__ import annotations

import re
import shlex
import subprocess
import textwrap
from pathlib import Path

import pytest

from tests.cli.conftest import SYMD
from tests.tools import require

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "samples" / "amdgpu" / "bin"


@pytest.mark.parametrize(
    ("modules", "passes"),
    [
        (["v4-gfx900.co"], True),
        (["v4-gfx900.co", "v5-gfx1100.co"], True),
        (["v4-gfx900-nodebug.co"], False),
        (["v4-gfx900-stripped.co", "v4-gfx900.co"], False),
    ],
)
def test_the_step_ends_as_the_page_says(tmp_path: Path, modules: list[str], passes: bool) -> None:
    require("jq")
    page = (ROOT / "docs" / "integrations.md").read_text()
    (step,) = re.findall(r"^  run: \|\n((?:    .*\n)+)", page, re.MULTILINE)
    install, *lines = textwrap.dedent(step).splitlines()
    assert install.endswith("pip install ./symd")
    (tmp_path / "build").mkdir()
    for module in modules:
        (tmp_path / "build" / module).symlink_to(SAMPLES / module)
    (tmp_path / "symd-env" / "bin").mkdir(parents=True)
    symd = tmp_path / "symd-env" / "bin" / "symd"
    symd.write_text(f'#!/bin/sh\nexec {shlex.join(SYMD)} "$@"\n')
    symd.chmod(0o755)

    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", "\n".join(lines)]  # as Actions runs it
    ended = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (ended.returncode == 0) is passes, ended.stdout + ended.stderr
    assert passes or "no debug data" in ended.stdout + ended.stderr
