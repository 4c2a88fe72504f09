"""The commands of the reference pages run on samples that stand in for the reader's files, under the names that the pages give them.

A page whose commands need what is not here (a device, another program's log, systemd) is named below with the tests that do what it says."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.docs.shell import ROOT, Shell, steps
from tests.docs.test_pages import PAGES as FOLLOWED
from tests.tools import require

FILES = {
    "docs/drop-ins.md": {},
    "docs/cores.md": {
        "core_1760000000_host_4242.nvcudmp": "cores/bin/illegal_address.nvcudmp",
        "gpucore.4242": "cores/bin/address_error.gpucore",
        "kernels.co": "amdgpu/bin/v3-gfx906-xnack-off.co",
    },
}
"""Page to file to sample."""
ELSEWHERE = {
    "docs/which-command.md": "tests/docs/test_commands.py",
    "docs/security.md": "tests/docs/test_commands.py",
    "docs/operations.md": "tests/docs/test_commands.py",
    "docs/batch.md": "tests/cli/test_batch.py",
    "docs/capture.md": "tests/capture/test_run_runtimes.py",
    "docs/live-modules.md": "tests/daemon/test_live_modules.py",
    "docs/fault-text.md": "tests/cli/test_annotate.py",
    "docs/listing.md": "tests/cli/test_listing.py",
    "docs/page.md": "tests/server/http",
    "docs/integrations.md": "tests/cli/debuggers",
    "docs/reliability.md": "tests/fuzz",
    "docs/scaling.md": "tests/store/shared",
}
"""Page to what runs its commands."""


@pytest.mark.parametrize("page", FILES)
def test_the_commands_of_a_page_run(page: str, tmp_path: Path) -> None:
    if page == "docs/drop-ins.md":
        require("llvm-symbolizer")
    shell = Shell(tmp_path)
    try:
        shutil.copytree(ROOT / "samples" / "amdgpu", tmp_path / "samples" / "amdgpu")
        for name, sample in FILES[page].items():
            shutil.copy(ROOT / "samples" / sample, tmp_path / name)
        ran = [shell.run(step.line, step.exit_code) for step in _typed(page)]
        assert len(ran) > 1
    finally:
        shell.stop()


def _typed(page: str) -> list:
    """The page's calls of symd; other indented lines are output."""
    return [step for step in steps((ROOT / page).read_text()) if re.match(r"symd [a-z]", step.line)]


def test_every_page_with_commands_is_run() -> None:
    folders = [ROOT / "docs", ROOT / "docs" / "tutorials", ROOT / "docs" / "formats"]
    pages = [*(page for folder in folders for page in folder.glob("*.md")), ROOT / "README.md"]
    names = {str(page.relative_to(ROOT)) for page in pages}
    commanding = {name for name in names if _typed(name)}
    assert not commanding - {*FOLLOWED, *FILES, *ELSEWHERE}
    assert {*FOLLOWED, *FILES, *ELSEWHERE} <= names
    assert not [place for place in ELSEWHERE.values() if not (ROOT / place).exists()]
