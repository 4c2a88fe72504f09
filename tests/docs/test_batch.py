"""docs/batch.md: its Python runs as it stands and prints what is shown."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "batch.md"


def test_the_page_runs_from_top_to_bottom(tmp_path: Path) -> None:
    shutil.copy(ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co", tmp_path / "shade.co")
    text = PAGE.read_text()
    (tmp_path / "page.py").write_text("\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "page.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    shown = re.findall(r"```\n\n((?:    .*\n)+)", text)
    assert len(shown) == 4
    for block in shown:
        for line in block.splitlines():
            assert line.strip() in done.stdout.splitlines(), done.stdout
