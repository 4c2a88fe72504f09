"""What setuptools is told beside pyproject.toml: a wheel carries the samples, the protos, the documents and the units of this repository too,
below ``symd/shipped``, and says of which commit it was built. In a checkout they lie where they are."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = Path(__file__).resolve().parent
SHIPPED = ("docs", "packaging", "protos", "samples")
NOT_SHIPPED = shutil.ignore_patterns("__pycache__", "*.py[cod]", "node_modules", ".*", "images")
COMMIT = "COMMIT"
"""The file of a source distribution that names its commit."""
DESCRIBE = ("git", "describe", "--always", "--exclude=*", "--abbrev=12", "--dirty")


def commit() -> str:
    """The commit that is built, with "-dirty" where files were changed; "" where nobody knows."""
    if (ROOT / COMMIT).is_file():
        return (ROOT / COMMIT).read_text(encoding="ascii")
    if not (ROOT / ".git").exists():
        return ""
    try:
        return subprocess.run(DESCRIBE, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


class BuildWithSamples(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            shipped = Path(self.build_lib) / "symd" / "shipped"
            for name in SHIPPED:
                shutil.rmtree(shipped / name, ignore_errors=True)
                shutil.copytree(ROOT / name, shipped / name, ignore=NOT_SHIPPED)
            (shipped / "commit").write_text(commit(), encoding="ascii")


class SourceWithCommit(sdist):
    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        (Path(base_dir) / COMMIT).write_text(commit(), encoding="ascii")


setup(cmdclass={"build_py": BuildWithSamples, "sdist": SourceWithCommit})
