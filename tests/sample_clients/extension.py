"""The sample extension for VS Code, packaged as its README says, and what LLVM's tools say of the module that it is tried with."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

from tests import tools

ROOT = Path(__file__).parents[2]
EXTENSION = ROOT / "samples" / "vscode"
SAMPLE = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
SOURCE = ROOT / "samples" / "amdgpu" / "src" / "shade.cl"
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


def rows() -> list[tuple[int, int]]:
    """(address, line) of every row as llvm-dwarfdump has it, those that end a sequence with line 0."""
    found = []
    for line in tools.output(tools.require("llvm-dwarfdump"), "--debug-line", SAMPLE).splitlines():
        words = line.split()
        if words and words[0].startswith("0x") and len(words) > 5:
            found.append((int(words[0], 16), 0 if "end_sequence" in words else int(words[1])))
    return found


def functions() -> dict[str, range]:
    """Where each function is, by the symbol table."""
    table = [line.split() for line in tools.output(tools.require("llvm-readelf"), "--symbols", SAMPLE).splitlines()]
    found = [words for words in table if len(words) == 8 and words[3] == "FUNC"]
    return {words[7]: range(int(words[1], 16), int(words[1], 16) + int(words[2])) for words in found}


def address(place: str) -> int:
    name, offset = place.split("+")
    return functions()[name][int(offset, 16)]


def line_at(address: int) -> int:
    return next(line for (start, line), (end, _) in pairwise(rows()) if start <= address < end)
