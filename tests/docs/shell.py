"""A shell in a fresh folder that runs the lines of the documentation, and what it takes of a page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
LONG = 120
"""Seconds that one line may take."""


def commands(text: str) -> list[str]:
    """The lines of indented blocks, without comments."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return [re.sub(r"\s+#.*", "", line).strip() for line in text.splitlines() if line.startswith("    ")]


class Shell:
    """Runs lines one after another in one folder. ``symd serve`` and ``symd view`` go on in the background, until the next one begins."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.daemons = folder, []
        programs = folder / "programs"
        programs.mkdir()
        (programs / "symd").write_text(f'#!/bin/sh\nexec {sys.executable} -m symd "$@"\n')
        (programs / "symd").chmod(0o755)
        for name in ("python", "python3"):
            (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
            (programs / name).chmod(0o755)
        (folder / "run").mkdir(mode=0o700)
        kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "HOME") if name in os.environ}
        path = f"{programs}:{os.environ['PATH']}"
        self.variables = {**kept, "PATH": path, "PYTHONPATH": str(ROOT), "SYMD_STORE": f"{folder}/store"}
        self.variables |= {"XDG_RUNTIME_DIR": f"{folder}/run", "TMPDIR": str(folder), "BROWSER": "true"}

    def run(self, line: str, exit_code: int = 0) -> str:
        """What the line prints, on standard output and standard error."""
        if line.startswith(("symd serve", "symd view")):
            return self.serve(line.removesuffix("&"))
        keeping = f"{line}\nstatus=$?; env -0 > .variables; exit $status"
        done = subprocess.run(
            ["bash", "-c", keeping],
            check=False,
            cwd=self.folder,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=LONG,
        )
        assert done.returncode == exit_code, (line, done.returncode, done.stdout, done.stderr)
        saved = (self.folder / ".variables").read_text().rstrip("\0").split("\0")
        self.variables = dict(each.split("=", 1) for each in saved)
        return done.stdout + done.stderr

    def serve(self, line: str) -> str:
        self.stop()
        words = ["bash", "-c", f"exec {line}"]
        daemon = subprocess.Popen(words, cwd=self.folder, env=self.variables, stdout=subprocess.PIPE, text=True)
        self.daemons.append(daemon)
        return daemon.stdout.readline()

    def stop(self) -> None:
        while self.daemons:
            daemon = self.daemons.pop()
            daemon.terminate()
            daemon.communicate(timeout=LONG)


@dataclass(frozen=True, slots=True)
class Step:
    """A line to type with the exit code that it has, and the lines that the page shows of what is printed."""

    line: str
    exit_code: int
    shown: list[str]


def steps(text: str) -> list[Step]:
    """The lines of a page's indented blocks in their order. A block of the kind ``text`` shows output of the lines since the
    block before it, in which "…" stands for anything; "# exit code N" behind a line says how it ends."""
    found: list[Step] = []
    fence = ""
    for line in text.splitlines():
        if line.startswith("```"):
            fence = "" if fence else line
        elif fence == "```text":
            found[-1].shown.append(line)
        elif not fence and line.startswith("    ") and line.strip():
            code = re.search(r"# exit code (\d+)", line)
            found.append(Step(re.sub(r"\s+#\s.*", "", line).strip(), int(code[1]) if code else 0, []))
    return found


def programs(text: str) -> dict[str, str]:
    """The Python programs of a page whose first line is a comment with their name."""
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return {found[1]: block for block in blocks if (found := re.match(r"# (\w+\.py)\n", block))}


def shows(printed: str, line: str) -> bool:
    """Whether a line that a page shows is part of a line that was printed."""
    pattern = ".*".join(re.escape(part.strip()) for part in line.split("…"))
    return any(re.search(pattern, each) for each in printed.splitlines())
