"""The sample extension for VS Code, built and packaged as its README says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests import tools

ROOT = Path(__file__).parents[2]
EXTENSION = ROOT / "samples" / "vscode"
PATIENCE = 900
LEFT_OUT = shutil.ignore_patterns("node_modules", "out", "gen", "adapter", "*.vsix")


def packaged(folder: Path) -> Path:
    """The package, built in a copy of the sample below ``folder``."""
    for tool in ("node", "npm", "protoc"):
        tools.require(tool)
    copied = shutil.copytree(EXTENSION, folder / "vscode", ignore=LEFT_OUT)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "SAMPLES": str(EXTENSION.parent)}
    for command in (
        ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"],
        ["npm", "run", "package", "--silent"],
    ):
        done = subprocess.run(
            command, cwd=copied, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    (package,) = copied.glob("symd-*.vsix")
    return package
